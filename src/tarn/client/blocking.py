"""The client for threads: tritonclient's HTTP API over a whole fleet."""

import contextlib
import functools
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Self, TypeVar

from tritonclient.http import InferenceServerClient, InferResult
from tritonclient.utils import InferenceServerException

from tarn.client.affinity import RequestKey
from tarn.client.attempts import (
    one_of,
    raise_if_error,
    several,
    single,
    whose_fault,
)
from tarn.client.control import everywhere, load_call, log_call, trace_call, unload_call
from tarn.client.http_connection import (
    ClientConnection,
    CutError,
    HttpResponse,
    LateError,
    WireError,
)
from tarn.client.master_link import FleetLink, MasterSource
from tarn.client.pool import InstancePool, PoolMember
from tarn.client.requests import Prepared, inference, plain, plugged
from tarn.client.targets import ClientOptions, ServiceAddress
from tarn.errors import RefusedError, TarnError, TimedOutError
from tarn.follow import FleetCall
from tarn.triton.answers import Culprit
from tarn.triton.merged_answers import summed_statistics

__all__ = ["HttpClient", "PendingInference", "SingleClient", "TritonAdapter"]


class TritonAdapter(InferenceServerClient):  # type: ignore[misc] # tritonclient has no types
    """tritonclient's methods, over our own transport."""

    def __init__(self) -> None:
        # Skips the constructor that makes tritonclient's transport.
        super(InferenceServerClient, self).__init__()
        self._verbose = False

    def __del__(self) -> None:
        """Do nothing, unlike tritonclient's, which closes its transport."""

    def _send(self, request: Prepared) -> HttpResponse:
        raise NotImplementedError

    def _get(self, request_uri: str, headers: Any, query_params: Any) -> HttpResponse:
        return self._send(plain("GET", request_uri, b"", plugged(self, headers), query_params))

    def _post(
        self, request_uri: str, request_body: Any, headers: Any, query_params: Any
    ) -> HttpResponse:
        return self._send(
            plain("POST", request_uri, request_body, plugged(self, headers), query_params)
        )


class SingleClient(TritonAdapter):
    """tritonclient's client for exactly one instance, without balancing and retries."""

    def __init__(
        self,
        slot: PoolMember,
        fleet: InstancePool,
        connect: Callable[[ServiceAddress], AbstractContextManager[ClientConnection]],
    ) -> None:
        super().__init__()
        self._slot, self._fleet, self._connect = slot, fleet, connect

    @property
    def target(self) -> ServiceAddress:
        """The instance."""
        return self._slot.target

    def close(self) -> None:
        """Do nothing: each request has its own connection."""

    def infer(self, model_name: str, inputs: list[Any], **named: Any) -> Any:
        """Infer on this instance; the parameters are tritonclient's."""
        named["headers"] = plugged(self, named.get("headers"))
        answer = self._send(inference(model_name, inputs, **named))
        raise_if_error(answer)
        return InferResult(answer, verbose=False)

    def _send(self, request: Prepared) -> HttpResponse:
        self._fleet.take_this(self._slot)
        try:
            with self._connect(self.target) as connection:
                return connection.ask(request.head(self.target), request.body)
        except WireError as error:
            raise single(self.target, error) from error
        finally:
            self._fleet.give_back(self._slot, None, answered=False)


T = TypeVar("T")
Json = dict[str, Any]

# Threads for `async_infer` and for calls to every instance.
MOST_THREADS = 64
# For requests of these threads when the client is closed; then they are cut.
CLOSE_WITHIN_S = 5.0


class PendingInference:
    """The result of `HttpClient.async_infer`, like tritonclient's ``InferAsyncRequest``."""

    def __init__(self, future: "Future[Any]") -> None:
        self._future = future

    def get_result(self, block: bool = True, timeout: float | None = None) -> Any:  # noqa: FBT001, FBT002
        """Return the result.

        Raises:
            TimedOutError: There is none after *timeout* seconds; without *block*, none now.
        """
        try:
            return self._future.result(timeout if block else 0)
        except FutureTimeoutError as error:
            if self._future.done():
                raise
            raise TimedOutError("the inference has no result yet") from error


class HttpClient(TritonAdapter):
    """tritonclient's HTTP client for a fleet. Thread-safe, `close` included.

    Each request goes to the less busy of two instances. Methods that concern a server rather than a
    model apply to the whole fleet; see each method.

    Args:
        targets: The instances, if there is no master.
        source: Finds the master, which knows the instances.
        options: Time limits and retries.

    Raises:
        TarnError: No master answers, or it denies access.
    """

    def __init__(
        self,
        targets: Iterable[ServiceAddress] = (),
        source: MasterSource | None = None,
        options: ClientOptions | None = None,
    ) -> None:
        super().__init__()
        self._link = FleetLink(targets, source, options)
        self._fleet, self._options = self._link.pool, self._link.options
        self._tls = self._options.tls
        self._router = self._link.router
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._own = threading.local()
        # Connections on which threads of the pool wait for answers.
        self._in_flight: set[ClientConnection] = set()
        # Set when `close` cuts them: none may be added any more.
        self._cuts = False
        self._pending: set[Future[Any]] = set()
        self._link.look()
        self._link.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        names = ", ".join(target.name for target in self.targets)
        return f"HttpClient({names or 'no instance'})"

    def close(self) -> None:
        """End its threads and idle connections. Idempotent.

        Requests of `async_infer` have five seconds to end, and then are cut. Requests on other
        threads end by themselves.
        """
        if self._link.forked:  # the threads and connections are those of the parent process
            return
        with self._lock:
            self._link.closed = True
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)
        self._link.close()
        if pool is None:
            return
        wait(self._pending.copy(), CLOSE_WITHIN_S)
        with self._lock:
            self._cuts, in_flight = True, set(self._in_flight)
        for connection in in_flight:
            connection.cut()
        pool.shutdown(wait=True)

    @property
    def targets(self) -> tuple[ServiceAddress, ...]:
        """The instances that may get requests now."""
        return self._link.targets

    # --- inference ---

    def infer(self, *given: Any, **named: Any) -> Any:
        """Infer on one instance, and return tritonclient's ``InferResult``.

        The parameters are those of tritonclient's ``infer``. If a connection is refused, another
        instance is tried. If it is cut before the whole answer has arrived, another instance is
        tried too, and the inference **may be executed twice**; ``retry_resets=False`` prevents
        that. Requests of a sequence go to the instance where it began, and are never repeated.

        Raises:
            InferenceServerException: Triton answered with an error.
            UnreachableError: No instance took it; the error names what was tried.
            TimedOutError: The answer did not come in time.
        """
        return self._infer(self._inference(given, named))

    def async_infer(self, *given: Any, **named: Any) -> PendingInference:
        """Infer as `infer` does, on a thread of this client."""
        request = self._inference(given, named)
        return PendingInference(self._begin(self._threads(), lambda: self._infer(request)))

    def _inference(self, given: tuple[Any, ...], named: dict[str, Any]) -> Prepared:
        if self.plugin() is not None:
            named["headers"] = plugged(self, named.get("headers"))
        return inference(*given, **named)

    def _infer(self, request: Prepared) -> Any:
        key = self._router.key_of(request.model, request.sequence, request.headers, request.body)
        if key is not None and key.rule is None:
            answer = self._in_sequence(request, key)
        else:
            answer, _ = self._balanced(request, repeats=self._options.retry_resets, key=key)
        if answer.status_code != 200:  # noqa: PLR2004 (the only good answer)
            raise_if_error(answer)
        return InferResult(answer, self._verbose)

    # --- the fleet as one server ---

    def is_server_live(self, *given: Any, **named: Any) -> bool:
        """Return whether an instance is live; False at once if there is none in the view."""
        return bool(self.targets) and bool(super().is_server_live(*given, **named))

    def is_server_ready(self, *given: Any, **named: Any) -> bool:
        """Return whether an instance is ready; False at once if there is none in the view."""
        return bool(self.targets) and bool(super().is_server_ready(*given, **named))

    def is_model_ready(self, *given: Any, **named: Any) -> bool:
        """Return whether the model is ready on every instance, since any may get a request."""
        said = self.each(lambda one: one.is_model_ready(*given, **named))
        return bool(said) and all(said.values())

    def get_inference_statistics(self, *given: Any, **named: Any) -> Any:
        """Return the sum of the statistics of all instances in the view."""
        said = self.each(lambda one: one.get_inference_statistics(*given, **named))
        return summed_statistics(said.values())

    def load_model(self, *given: Any, **named: Any) -> None:
        """Load the model on every instance; return once all in the view have it.

        The master does it, also for instances that start or come back later. Without a master,
        each Triton of the list is asked.

        Raises:
            TarnError: Some instances refused it, or did not do it in time; the error names each.
        """
        self._of_all("load_model", load_call, given, named)

    def unload_model(self, *given: Any, **named: Any) -> None:
        """Unload the model on every instance, including later ones; see `load_model`."""
        self._of_all("unload_model", unload_call, given, named)

    def update_trace_settings(self, *given: Any, **named: Any) -> Any:
        """Change trace settings on every instance, including later ones; return the changes.

        Without a master, return the answer of one instance.
        """
        return self._of_all("update_trace_settings", trace_call, given, named)

    def update_log_settings(self, *given: Any, **named: Any) -> Any:
        """Change log settings on every instance, including later ones; return the changes.

        Without a master, return the answer of one instance.
        """
        return self._of_all("update_log_settings", log_call, given, named)

    def _of_all(
        self, name: str, made: Callable[..., FleetCall], given: tuple[Any, ...], named: Json
    ) -> Any:
        """Let every instance do the control call *name*; return the settings that it changes."""
        source = self._link.source
        if source is None:
            return one_of(self.each(lambda one: getattr(one, name)(*given, **named)))
        self._link.check()
        call = made(*given, **named)
        limit_s = self._options.control_within_s
        everywhere(source, call, self._link.clock, limit_s, threading.Event().wait)
        return call.body.get("settings")

    def each(self, ask: Callable[[SingleClient], T]) -> Mapping[str, T]:
        """Call *ask* with a client for each instance in the view, concurrently.

        Returns:
            The results by instance id, or by address without a master.

        Raises:
            TarnError: Some calls failed; the error names each.
        """
        slots, pool = self._fleet.slots, self._threads()
        asked = {
            slot.target.instance_id or slot.target.address: self._begin(
                pool, functools.partial(ask, self._single(slot))
            )
            for slot in slots
        }
        failed, said = {}, {}
        for name, future in asked.items():
            try:
                said[name] = future.result()
            except (TarnError, InferenceServerException) as error:
                failed[name] = error
        if failed:
            raise several(failed, len(asked))
        return said

    def _single(self, slot: PoolMember) -> SingleClient:
        one = SingleClient(slot, self._fleet, self._once)
        if self.plugin() is not None:
            one.register_plugin(self.plugin())
        return one

    def _no_shared_memory(self, *_given: Any, **_named: Any) -> Any:
        # The memory would have to be registered with the instance that gets the request.
        raise RefusedError(
            "shared memory is between one client and one server, and a fleet has several",
            next_step="Use tritonclient itself, with the address of one instance",
        )

    get_system_shared_memory_status = register_system_shared_memory = _no_shared_memory
    unregister_system_shared_memory = get_cuda_shared_memory_status = _no_shared_memory
    register_cuda_shared_memory = unregister_cuda_shared_memory = _no_shared_memory

    # --- one request ---

    def _send(self, request: Prepared) -> HttpResponse:
        # It only reads, so it may be repeated: methods that change something are overridden.
        return self._balanced(request, repeats=True)[0]

    def _balanced(
        self, request: Prepared, *, repeats: bool, key: RequestKey | None = None
    ) -> tuple[HttpResponse, PoolMember]:
        home = None if key is None else self._router.home(key)
        course = self._link.call(request.model, repeats=repeats, key=key, home=home)
        while True:
            self._link.check()
            slot = course.take()
            if slot is None:
                left_s = self._link.left_s(course)
                with self._link.waiters.one():
                    self._fleet.wait(left_s)
                continue
            try:
                answer = self._at(slot, request)
            except WireError as error:
                course.failed(slot, error)
            else:
                busy = answer.status_code == 503  # noqa: PLR2004
                again = course.elsewhere(slot) if busy else course.spared(slot, whose_fault(answer))
                if not again:
                    if key is not None:
                        self._router.settle(key, slot)
                    return answer, slot

    def _at(self, slot: PoolMember, request: Prepared) -> HttpResponse:
        """Send *request* to *slot*, where it is already counted as in flight."""
        kept, whose = None, None
        answered = False
        try:
            connection = self._connection(slot)
            try:
                with self._cuttable(connection):
                    answer = connection.ask(request.head(slot.target), request.body)
                answered, whose = True, whose_fault(answer)
                if connection.keeps:
                    kept = connection
            finally:
                if kept is None:
                    connection.close()
        except LateError:
            whose = Culprit.SERVER
            raise
        finally:
            self._fleet.give_back(slot, kept, answered=answered, model=request.model, whose=whose)
        return answer

    def _connection(self, slot: PoolMember) -> ClientConnection:
        while True:
            try:
                connection = slot.idle.pop()
            except IndexError:
                return self._connect(slot.target)
            if isinstance(connection, ClientConnection) and connection.fresh:
                return connection
            connection.close()

    def _connect(self, target: ServiceAddress) -> ClientConnection:
        if target.tls and self._tls is None:
            self._tls = ssl.create_default_context()
        limits = self._options.connect_within_s, self._options.answer_within_s
        return ClientConnection(target, *limits, self._tls)

    @contextlib.contextmanager
    def _once(self, target: ServiceAddress) -> Iterator[ClientConnection]:
        """Yield a connection for one request."""
        with self._connect(target) as connection, self._cuttable(connection):
            yield connection

    @contextlib.contextmanager
    def _cuttable(self, connection: ClientConnection) -> Iterator[None]:
        """Let `close` cut *connection* meanwhile, if this is a thread of the pool."""
        if not getattr(self._own, "pooled", False):
            yield
            return
        with self._lock:
            if self._cuts:
                raise CutError("the client was closed")
            self._in_flight.add(connection)
        try:
            yield
        finally:
            with self._lock:
                self._in_flight.discard(connection)

    def _in_sequence(self, request: Prepared, key: RequestKey) -> HttpResponse:
        """Send to the instance of the sequence, which its first request chooses."""
        if request.starts:
            self._router.forget(key)
        home = self._router.home(key)
        if home is None:
            answer, _ = self._balanced(request, repeats=False, key=key)
        else:
            self._link.check()
            self._fleet.take_this(home)
            try:
                answer = self._at(home, request)
            except LateError as error:
                raise single(home.target, error) from error
            except WireError as error:
                self._fleet.lost(home, request.model, connected=isinstance(error, CutError))
                raise self._router.lose(key, home, error) from error
        if request.ends:
            self._router.forget(key)
        return answer

    # --- itself ---

    def _threads(self) -> ThreadPoolExecutor:
        self._link.check()
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(
                    MOST_THREADS, "tarn-client", lambda: setattr(self._own, "pooled", True)
                )
            return self._pool

    def _begin(self, pool: ThreadPoolExecutor, work: Callable[[], T]) -> "Future[T]":
        try:
            future = pool.submit(work)
        except RuntimeError as error:  # the client was closed meanwhile
            raise RefusedError("the client is closed") from error
        self._pending.add(future)
        future.add_done_callback(self._pending.discard)
        return future
