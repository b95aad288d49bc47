"""The client over gRPC: inference, and streams of answers, each on one chosen instance."""

import contextlib
import os
import queue
import threading
from collections.abc import Iterable, Iterator
from typing import Any, Self

import grpc
from tritonclient.grpc import InferenceServerClient
from tritonclient.utils import InferenceServerException

from tarn.client.attempts import CallAttempts
from tarn.client.demand_reporter import DemandReporter
from tarn.client.options import ClientOptions
from tarn.client.pool import InstancePool, PoolMember
from tarn.client.targets import ServiceAddress
from tarn.client.views import MasterSource, PoolFollower
from tarn.clock import SystemClock
from tarn.errors import ConfigError, RefusedError, TimedOutError, UnreachableError
from tarn.triton.answers import GRPC_STATUS, Culprit, blame

__all__ = ["GrpcClient"]

_CUT, _LATE = str(grpc.StatusCode.UNAVAILABLE), str(grpc.StatusCode.DEADLINE_EXCEEDED)


class GrpcClient:
    """``tritonclient.grpc`` for a fleet: `infer`, `stream`, and `single` for everything else.

    Thread-safe. gRPC does not tell a refused connection from one that was cut, so with
    ``retry_resets=False`` neither is tried elsewhere.

    Args:
        targets: The gRPC services, when no master says the instances.
        source: Finds the master that says them.
        options: How patient it is.
        roots: Certificates in PEM by which addresses with https are known; None: gRPC's own
            authorities.

    Raises:
        TarnError: There is a source, and no master answers there, or not to this user.
        ConfigError: An address with https has a path, or the options have an ``ssl.SSLContext``,
            and gRPC can use neither.
    """

    def __init__(
        self,
        targets: Iterable[ServiceAddress] = (),
        source: MasterSource | None = None,
        options: ClientOptions | None = None,
        roots: bytes | None = None,
    ) -> None:
        self._options, self._clock = options or ClientOptions(), SystemClock()
        targets = tuple(targets)
        self._credentials = _credentials(targets, self._options, roots)
        self._fleet = InstancePool(self._clock)
        self._fleet.set_members(targets)
        self._lock = threading.Lock()
        self._clients: dict[PoolMember, Any] = {}
        self._closed, self._pid = False, os.getpid()
        self._waiters = DemandReporter(source, self._fleet)
        self._following: PoolFollower | None = None
        self._fleet.listen(self._tidy)
        if source is not None:
            self._following = PoolFollower(source, self._fleet, self._clock)
            self._following.look()
            self._following.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """End its thread and its channels; what is in flight is cut. Idempotent."""
        if os.getpid() != self._pid:
            return
        self._closed = True
        self._waiters.close()
        if self._following is not None:
            self._following.close()
        self._fleet.close()
        with self._lock:
            clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            client.close()

    @property
    def targets(self) -> tuple[ServiceAddress, ...]:
        """The instances that may get a request now."""
        return tuple(slot.target for slot in self._fleet.slots)

    def infer(self, model_name: str, inputs: list[Any], **named: Any) -> Any:
        """Infer on one instance; the parameters are those of ``tritonclient.grpc``.

        Cut before the answer came, it is asked of another one, unless the client was made with
        ``retry_resets=False``: the inference **may then have been executed twice**. A request of a
        sequence is never repeated, and not bound to an instance: use `single` for sequences.

        Raises:
            InferenceServerException: Triton answered with an error.
            UnreachableError: No instance took it, or it may not be repeated.
            TimedOutError: The answer did not come in time.
        """
        named.setdefault("client_timeout", self._options.answer_within_s)
        course = self._course(named, model_name)
        while True:
            slot, answered, whose = self._take(course), False, None
            try:
                result = self._client(slot).infer(model_name, inputs, **named)
                answered = True
            except InferenceServerException as error:
                whose = _whose_fault(error)
                self._failed(course, slot, error)
            else:
                return result
            finally:
                self._give_back(slot, answered=answered, model=model_name, whose=whose)

    def stream(self, model_name: str, inputs: list[Any], **named: Any) -> Iterator[Any]:
        """Yield the answers of one request to a (decoupled) model, all of one instance.

        The parameters are those of ``async_stream_infer``. It is asked of another instance only as
        long as no answer came.

        Raises:
            InferenceServerException: Triton answered with an error.
            UnreachableError: No instance took it, or the stream was cut.
            TimedOutError: The next answer did not come in time.
        """
        course = self._course(named, model_name)
        while True:
            slot, heard, whose = self._take(course), False, None
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
                self._failed(course, slot, error)
            else:
                return
            finally:
                self._give_back(slot, answered=heard, model=model_name, whose=whose)

    @contextlib.contextmanager
    def single(self) -> Iterator[Any]:
        """Return tritonclient's own client of one chosen instance, which counts as busy meanwhile.

        For sequences, and for streams with several requests.
        """
        slot = self._take(self._course({}))
        try:
            client = self._channel(slot.target)
            try:
                yield client
            finally:
                client.close()
        finally:
            self._give_back(slot, answered=False)

    def _course(self, named: dict[str, Any], model: str = "") -> CallAttempts:
        alone = named.get("sequence_id", 0) in (0, "")
        repeats = self._options.retry_resets and alone
        return CallAttempts(self._fleet, self._clock, self._options, repeats=repeats, model=model)

    def _take(self, course: CallAttempts) -> PoolMember:
        while True:
            self._check()
            slot = course.take()
            if slot is not None:
                return slot
            following = self._following
            left_s = course.left_s(following.trouble if following else "")
            with self._waiters.one():
                self._fleet.wait(left_s)

    def _failed(
        self, course: CallAttempts, slot: PoolMember, error: InferenceServerException
    ) -> None:
        """Return when the request may be asked of another one; raise when not."""
        if error.status() == _LATE:
            if course.spared(slot, _whose_fault(error)):
                return
            raise course.late(slot, error.message()) from error
        if error.status() != _CUT:
            if course.spared(slot, _whose_fault(error)):
                return
            raise error
        if _whose_fault(error) is Culprit.NOBODY:  # it was not taken: the queue is full
            if course.elsewhere(slot):
                return
            raise error
        self._fleet.eject(slot)  # perhaps refused: then the first time is enough
        course.cut(slot, error.message())

    def _give_back(
        self, slot: PoolMember, *, answered: bool, model: str = "", whose: Culprit | None = None
    ) -> None:
        self._fleet.give_back(slot, None, answered=answered, model=model, whose=whose)
        if slot.gone:
            self._tidy()

    def _client(self, slot: PoolMember) -> Any:
        with self._lock:
            self._check()  # within the lock: `close` ends what was made before, and nothing later
            client = self._clients.get(slot)
            if client is None:
                client = self._clients[slot] = self._channel(slot.target)
            return client

    def _channel(self, target: ServiceAddress) -> Any:
        """Return tritonclient's client of *target*: encrypted where its address says https."""
        credentials = self._credentials if target.tls else None
        return InferenceServerClient(target.grpc_address, creds=credentials)

    @contextlib.contextmanager
    def _one_stream(self, target: ServiceAddress) -> "Iterator[_Answers]":
        client = self._channel(target)
        try:
            yield _Answers(client, target, self._options.answer_within_s)
        finally:
            client.stop_stream(cancel_requests=True)
            client.close()

    def _tidy(self) -> None:
        """Close the channels to instances that left the view and have nothing in flight."""
        with self._lock:
            over = [s for s in self._clients if s.gone and s.in_flight == 0]
            clients = [self._clients.pop(slot) for slot in over]
        for client in clients:
            client.close()

    def _check(self) -> None:
        if self._closed:
            raise RefusedError("the client is closed")
        if os.getpid() != self._pid:
            raise RefusedError("the client was made by another process: make one in each")


class _Answers:
    """The answers of one stream, one after another."""

    def __init__(self, client: Any, target: ServiceAddress, answer_within_s: float) -> None:
        self._client, self._target, self._within_s = client, target, answer_within_s
        self._heard: queue.Queue[tuple[Any, Any]] = queue.Queue()
        client.start_stream(lambda result, error: self._heard.put((result, error)))

    def ask(self, model_name: str, inputs: list[Any], named: dict[str, Any]) -> Iterator[Any]:
        """Send one request, and yield its answers until the last."""
        self._client.async_stream_infer(
            model_name, inputs, **{**named, "enable_empty_final_response": True}
        )
        # No second request comes. Said here, for when tritonclient cancels a stream it leaves the
        # thread that waits for one behind.
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


def _whose_fault(error: InferenceServerException) -> Culprit | None:
    """Return whose fault *error* is; None where the connection ended, and tells by itself."""
    code = str(error.status()).removeprefix("StatusCode.")
    whose = blame(GRPC_STATUS.get(code, 500), error.message() or "")
    return None if whose is Culprit.SERVER and error.status() == _CUT else whose


def _credentials(
    targets: Iterable[ServiceAddress], options: ClientOptions, roots: bytes | None
) -> Any:
    """Return what encrypts the channels to those of *targets* with https; None: there are none."""
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
