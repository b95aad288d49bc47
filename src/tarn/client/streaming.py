"""The client over gRPC: inference, and streams of answers."""

import contextlib
import queue
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

import grpc
from tritonclient.grpc import (
    MAX_GRPC_MESSAGE_SIZE,
    InferenceServerClient,
    InferResult,
    service_pb2,
)
from tritonclient.grpc._utils import _get_inference_request, get_error_grpc
from tritonclient.utils import InferenceServerException

from tarn.client.affinity import RequestKey, sequence_headers
from tarn.client.attempts import CallAttempts
from tarn.client.master_link import FleetLink, MasterSource
from tarn.client.pool import PoolMember
from tarn.client.targets import ClientOptions, ServiceAddress
from tarn.errors import ConfigError, TimedOutError, UnreachableError
from tarn.triton.answers import GRPC_STATUS, Culprit, blame

__all__ = ["GrpcClient"]

_INFER = "/inference.GRPCInferenceService/ModelInfer"
_CHANNEL_OPTIONS = (
    ("grpc.max_send_message_length", MAX_GRPC_MESSAGE_SIZE),
    ("grpc.max_receive_message_length", MAX_GRPC_MESSAGE_SIZE),
)
_COMPRESSIONS = {"deflate": grpc.Compression.Deflate, "gzip": grpc.Compression.Gzip}
# Before the bytes of each tensor: the number of their field, and the kind "length and bytes".
_CONTENT = bytes([service_pb2.ModelInferRequest.RAW_INPUT_CONTENTS_FIELD_NUMBER << 3 | 2])
_CUT, _LATE = str(grpc.StatusCode.UNAVAILABLE), str(grpc.StatusCode.DEADLINE_EXCEEDED)


class GrpcClient:
    """``tritonclient.grpc`` for a fleet: `infer`, `stream`, and `single` for everything else.

    Thread-safe. gRPC does not distinguish a refused connection from one that was cut, so with
    ``retry_resets=False`` there is no retry after either.

    Args:
        targets: The gRPC services, if there is no master.
        source: Finds the master, which knows the instances.
        options: Time limits and retries.
        roots: The authorities to trust for https addresses, in PEM; None for gRPC's own list.

    Raises:
        TarnError: No master answers, or it denies access.
        ConfigError: An https address has a path, or the options have an ``ssl.SSLContext``; gRPC
            can use neither.
    """

    def __init__(
        self,
        targets: Iterable[ServiceAddress] = (),
        source: MasterSource | None = None,
        options: ClientOptions | None = None,
        roots: bytes | None = None,
    ) -> None:
        targets = tuple(targets)
        self._link = FleetLink(targets, source, options)
        self._fleet, self._options = self._link.pool, self._link.options
        self._router = self._link.router
        self._credentials = _credentials(targets, self._options, roots)
        self._lock = threading.Lock()
        self._channels: dict[PoolMember, _Channel] = {}
        self._fleet.listen(self._tidy)
        self._link.look()
        self._link.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """End its thread and its channels; requests in flight are cut. Idempotent."""
        if self._link.forked:
            return
        self._link.close()
        with self._lock:
            channels, self._channels = list(self._channels.values()), {}
        for channel in channels:
            channel.close()

    @property
    def targets(self) -> tuple[ServiceAddress, ...]:
        """The instances that may get requests now."""
        return self._link.targets

    def infer(self, model_name: str, inputs: list[Any], **named: Any) -> Any:
        """Infer on one instance; the parameters are those of ``tritonclient.grpc``.

        If the connection ends before the answer, another instance is tried, and the inference **may
        be executed twice**; ``retry_resets=False`` prevents that. Requests of a sequence go to the
        instance where it began, and are never repeated.

        Raises:
            InferenceServerException: Triton answered with an error.
            UnreachableError: No instance took it, or it may not be repeated.
            TimedOutError: The answer did not come in time.
        """
        within_s = named.pop("client_timeout", self._options.answer_within_s)
        compression = named.pop("compression_algorithm", None)
        headers = named.pop("headers", None)
        request = _encoded(model_name, inputs, **named)  # once for all attempts
        named["headers"] = headers
        key = self._key(named, model_name)
        headers = named.get("headers")
        course = self._course(named, model_name, key)
        while True:
            slot, answered, whose = self._take(course, key), False, None
            try:
                result = self._channel(slot).infer(request, within_s, headers, compression)
                answered = True
            except InferenceServerException as error:
                whose = _whose_fault(error)
                self._failed(course, slot, error, key)
            else:
                self._settle(key, slot, named)
                return result
            finally:
                self._give_back(slot, answered=answered, model=model_name, whose=whose)

    def stream(self, model_name: str, inputs: list[Any], **named: Any) -> Iterator[Any]:
        """Yield the answers to one request, also of a decoupled model, from one instance.

        The parameters are those of ``async_stream_infer``. Another instance is tried only before
        the first answer.

        Raises:
            InferenceServerException: Triton answered with an error.
            UnreachableError: No instance took it, or the stream was cut.
            TimedOutError: The next answer did not come in time.
        """
        key = self._key(named, model_name)
        course = self._course(named, model_name, key)
        while True:
            slot, heard, whose = self._take(course, key), False, None
            try:
                with self._one_stream(slot.target) as answers:
                    for result in answers.ask(model_name, inputs, named):
                        heard = True
                        yield result
            except TimedOutError:
                whose = Culprit.SERVER
                if heard or not course.spared(slot, whose):
                    raise
            except InferenceServerException as error:
                whose = _whose_fault(error)
                if heard and error.status() == _CUT:
                    raise UnreachableError(
                        f"the stream was cut after it had begun ({error.message()})",
                        where=slot.target.name,
                    ) from error
                self._failed(course, slot, error, key)
            else:
                self._settle(key, slot, named)
                return
            finally:
                self._give_back(slot, answered=heard, model=model_name, whose=whose)

    @contextlib.contextmanager
    def single(self) -> Iterator[Any]:
        """Yield tritonclient's own client for one instance, which counts as busy meanwhile.

        It is for streams with several requests.
        """
        slot = self._take(self._course({}))
        try:
            client = self._client(slot.target)
            try:
                yield client
            finally:
                client.close()
        finally:
            self._give_back(slot, answered=False)

    def _key(self, named: dict[str, Any], model: str) -> RequestKey | None:
        """Return the key of a call, and give the id of its sequence to a load balancer, too."""
        sequence = named.get("sequence_id", 0)
        headers = sequence_headers(sequence, named.get("headers") or {})
        if headers:
            named["headers"] = headers
        # There is no JSON body, so only a header can be the key of a request without a sequence.
        key = self._router.key_of(model, sequence, headers, b"")
        if key is not None and named.get("sequence_start"):
            self._router.forget(key)
        return key

    def _course(
        self, named: dict[str, Any], model: str = "", key: RequestKey | None = None
    ) -> CallAttempts:
        alone = named.get("sequence_id", 0) in (0, "")
        repeats = self._options.retry_resets and alone
        home = None if key is None else self._router.home(key)
        return self._link.call(model, repeats=repeats, key=key, home=home)

    def _settle(self, key: RequestKey | None, slot: PoolMember, named: dict[str, Any]) -> None:
        """Note which instance has answered a call with *key*."""
        if key is None:
            return
        if key.rule is None and named.get("sequence_end"):
            self._router.forget(key)
        else:
            self._router.settle(key, slot)

    def _take(self, course: CallAttempts, key: RequestKey | None = None) -> PoolMember:
        while True:
            self._link.check()
            if key is not None and key.rule is None and (home := self._router.home(key)):
                self._fleet.take_this(home)  # even if it has left the view
                return home
            slot = course.take()
            if slot is not None:
                return slot
            left_s = self._link.left_s(course)
            with self._link.waiters.one():
                self._fleet.wait(left_s)

    def _failed(
        self,
        course: CallAttempts,
        slot: PoolMember,
        error: InferenceServerException,
        key: RequestKey | None,
    ) -> None:
        """Return if another instance may be tried, else raise the error of the call."""
        cut = error.status() == _CUT and _whose_fault(error) is not Culprit.NOBODY
        if cut and key is not None and key.rule is None and self._router.home(key) is slot:
            self._fleet.eject(slot)
            raise self._router.lose(key, slot, error.message()) from error
        if error.status() != _CUT:
            if course.spared(slot, _whose_fault(error)):
                return
            if error.status() == _LATE:
                raise course.late(slot, error.message()) from error
            raise error
        if _whose_fault(error) is Culprit.NOBODY:  # not taken: the queue is full
            if course.elsewhere(slot):
                return
            raise error
        # The connection may have been refused, and one refused connection is enough to eject.
        self._fleet.eject(slot)
        course.cut(slot, error.message())

    def _give_back(
        self, slot: PoolMember, *, answered: bool, model: str = "", whose: Culprit | None = None
    ) -> None:
        self._fleet.give_back(slot, None, answered=answered, model=model, whose=whose)
        if slot.gone:
            self._tidy()

    def _channel(self, slot: PoolMember) -> "_Channel":
        with self._lock:
            # Within the lock, so that no channel is made after `close` has taken them all.
            self._link.check()
            channel = self._channels.get(slot)
            if channel is None:
                credentials = self._credentials if slot.target.tls else None
                channel = _Channel(slot.target.grpc_address, credentials)
                self._channels[slot] = channel
            return channel

    def _client(self, target: ServiceAddress) -> Any:
        """Return tritonclient's client for *target*, with TLS if its address has https."""
        credentials = self._credentials if target.tls else None
        return InferenceServerClient(target.grpc_address, creds=credentials)

    @contextlib.contextmanager
    def _one_stream(self, target: ServiceAddress) -> "Iterator[_Answers]":
        client = self._client(target)
        try:
            yield _Answers(client, target, self._options.answer_within_s)
        finally:
            client.stop_stream(cancel_requests=True)
            client.close()

    def _tidy(self) -> None:
        """Close channels to instances that left the view and have no requests in flight."""
        with self._lock:
            over = [s for s in self._channels if s.gone and s.in_flight == 0]
            channels = [self._channels.pop(slot) for slot in over]
        for channel in channels:
            channel.close()


class _Channel:
    """A channel to one instance, for encoded inferences."""

    def __init__(self, address: str, credentials: Any) -> None:
        if credentials is None:
            channel = grpc.insecure_channel(address, _CHANNEL_OPTIONS)
        else:
            channel = grpc.secure_channel(address, credentials, _CHANNEL_OPTIONS)
        self.close = channel.close
        self._infer = channel.unary_unary(_INFER, None, service_pb2.ModelInferResponse.FromString)

    def infer(
        self,
        request: bytes,
        within_s: float | None,
        headers: Mapping[str, Any] | None,
        compression: str | None,
    ) -> Any:
        """Send *request*, and return tritonclient's ``InferResult``; errors are tritonclient's."""
        try:
            response = self._infer(
                request,
                timeout=within_s,
                metadata=tuple(headers.items()) if headers else None,
                compression=_COMPRESSIONS.get((compression or "").lower()),
            )
        except grpc.RpcError as error:
            raise get_error_grpc(error) from None
        return InferResult(response)


class _Answers:
    """The answers of one stream."""

    def __init__(self, client: Any, target: ServiceAddress, answer_within_s: float) -> None:
        self._client, self._target, self._within_s = client, target, answer_within_s
        self._heard: queue.Queue[tuple[Any, Any]] = queue.Queue()
        client.start_stream(lambda result, error: self._heard.put((result, error)))

    def ask(self, model_name: str, inputs: list[Any], named: dict[str, Any]) -> Iterator[Any]:
        """Send one request, and yield its answers."""
        self._client.async_stream_infer(
            model_name, inputs, **{**named, "enable_empty_final_response": True}
        )
        # This ends the requests of the stream. Without it, tritonclient leaves a thread behind that
        # waits for the next request, when it cancels a stream.
        self._client._stream._enqueue_request(None)  # noqa: SLF001 (there is no public way)
        while True:
            try:
                result, error = self._heard.get(timeout=self._within_s)
            except queue.Empty:
                raise TimedOutError(
                    f"no answer for {self._within_s:g} s", where=self._target.name
                ) from None
            if error is not None:
                raise error
            response = result.get_response()
            last = response.parameters["triton_final_response"].bool_param
            if response.outputs:
                yield result
            if last:
                return


class _WithoutContent:
    """An input whose bytes are not copied into the message."""

    def __init__(self, given: Any) -> None:
        self._get_tensor = given._get_tensor  # noqa: SLF001 (there is no public way)

    def _get_content(self) -> None:
        return None


def _encoded(  # noqa: PLR0913, PLR0917 (the parameters of tritonclient's infer)
    model_name: str,
    inputs: list[Any],
    model_version: str = "",
    outputs: list[Any] | None = None,
    request_id: str = "",
    sequence_id: object = 0,
    sequence_start: bool = False,  # noqa: FBT001, FBT002
    sequence_end: bool = False,  # noqa: FBT001, FBT002
    priority: int = 0,
    timeout: int | None = None,
    parameters: Mapping[str, object] | None = None,
) -> bytes:
    """Return the ``ModelInferRequest`` of an inference as bytes, as tritonclient encodes it."""
    # The bytes of tensors are joined to the encoded rest: in a message, protobuf would copy them
    # several times, which takes two thirds of the time of a request with 1 MB.
    if not isinstance(model_version, str):
        raise InferenceServerException("model version must be a string")
    message = _get_inference_request(
        model_name=model_name,
        inputs=[_WithoutContent(one) for one in inputs],
        model_version=model_version,
        request_id=request_id,
        outputs=outputs,
        sequence_id=sequence_id,
        sequence_start=sequence_start,
        sequence_end=sequence_end,
        priority=priority,
        timeout=timeout,
        parameters=parameters,
    )
    parts: list[bytes] = [message.SerializeToString()]
    for one in inputs:
        content = one._get_content()  # noqa: SLF001 (there is no public way)
        if content is not None:
            parts += [_CONTENT, _varint(len(content)), content]
    return b"".join(parts)


def _varint(number: int) -> bytes:
    """Return *number* as protobuf writes lengths: seven bits a byte, the lowest first."""
    digits = bytearray()
    while number > 0x7F:  # noqa: PLR2004 (seven bits)
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    digits.append(number)
    return bytes(digits)


def _whose_fault(error: InferenceServerException) -> Culprit | None:
    """Return whose fault *error* is; None if the connection ended, which counts by itself."""
    code = str(error.status()).removeprefix("StatusCode.")
    whose = blame(GRPC_STATUS.get(code, 500), error.message() or "")
    return None if whose is Culprit.SERVER and error.status() == _CUT else whose


def _credentials(
    targets: Iterable[ServiceAddress], options: ClientOptions, roots: bytes | None
) -> Any:
    """Return the credentials for *targets* with https; None if there are none."""
    encrypted = [target for target in targets if target.tls]
    if not encrypted:
        return None
    for target in encrypted:
        if target.path:
            raise ConfigError(
                f"'{target.url}' has a path, and a gRPC address has none",
                right="Expected 'https://host:port'",
            )
    if options.tls is not None:
        raise ConfigError(
            "gRPC does not take an ssl.SSLContext, and its addresses begin with https",
            right="Expected ca=FILE, with the authorities in PEM",
            next_step="Pass the file as ca; without it, gRPC trusts its own list of authorities",
        )
    return grpc.ssl_channel_credentials(roots)
