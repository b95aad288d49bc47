"""The client for threads: tritonclient's HTTP API over a whole fleet."""

import contextlib
import functools
import os
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from concurrent.futures import TimeoutError as FutureTimeoutError
from types import TracebackType
from typing import Any, Self, TypeVar

from tritonclient.http import InferResult
from tritonclient.utils import InferenceServerException

from tarn.client.attempts import CallAttempts
from tarn.client.control import everywhere, load_call, log_call, trace_call, unload_call
from tarn.client.demand_reporter import DemandReporter
from tarn.client.failing import lost_sequence, one_of, raise_if_error, several, whose_fault
from tarn.client.http_connection import (
    ClientConnection,
    CutError,
    HttpResponse,
    LateError,
    WireError,
)
from tarn.client.options import ClientOptions
from tarn.client.pool import InstancePool, PoolMember
from tarn.client.requests import Prepared, inference, plugged
from tarn.client.sequences import Sequences
from tarn.client.single import SingleClient, TritonAdapter
from tarn.client.statistics import summed
from tarn.client.targets import ServiceAddress
from tarn.client.views import MasterSource, PoolFollower
from tarn.clock import SystemClock
from tarn.errors import RefusedError, TarnError, TimedOutError
from tarn.follow import FleetCall
from tarn.triton.answers import Culprit

__all__ = ["HttpClient", "PendingInference"]

T = TypeVar("T")

MOST_THREADS = 64
"""Of ``async_infer`` and of what is asked of every instance."""
CLOSE_WITHIN_S = 5.0
"""For what these threads have in flight when the client is closed; then it is cut."""


class PendingInference:
    """What `HttpClient.async_infer` returns: tritonclient's ``InferAsyncRequest``."""

    def __init__(self, future: "Future[Any]") -> None:
        self._future = future

    def get_result(self, block: bool = True, timeout: float | None = None) -> Any:  # noqa: FBT001, FBT002
        """Return the result.

        Raises:
            TimedOutError: There is none after *timeout* seconds (without *block*: now).
        """
        try:
            return self._future.result(timeout if block else 0)
        except FutureTimeoutError as error:
            if self._future.done():
                raise
            raise TimedOutError("the inference has no result yet") from error


class HttpClient(TritonAdapter):
    """tritonclient's HTTP client for a fleet. Thread-safe, `close` included.

    Each request goes to the less busy of two instances. What is asked of a server rather than of a
    model has the meaning that it has for a fleet: see each method.

    Args:
        targets: The instances, when no master says them.
        source: Finds the master that says them.
        options: How patient it is.

    Raises:
        TarnError: There is a source, and no master answers there, or not to this user.
    """

    def __init__(
        self,
        targets: Iterable[ServiceAddress] = (),
        source: MasterSource | None = None,
        options: ClientOptions | None = None,
    ) -> None:
        super().__init__()
        self._options, self._clock = options or ClientOptions(), SystemClock()
        self._tls = self._options.tls
        self._fleet = InstancePool(self._clock)
        self._fleet.set_members(targets)
        self._sequences = Sequences()
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._own = threading.local()
        self._in_flight: set[ClientConnection] = set()
        """On which threads of the pool wait for answers."""
        self._cuts = False
        """Nothing more may begin on these threads."""
        self._pending: set[Future[Any]] = set()
        self._closed, self._pid = False, os.getpid()
        self._source = source
        self._waiters = DemandReporter(source, self._fleet)
        self._following: PoolFollower | None = None
        if source is not None:
            self._following = PoolFollower(source, self._fleet, self._clock)
            self._following.look()
            self._following.start()

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
        """End its threads and connections; what other threads have in flight ends by itself.

        What `async_infer` has in flight has five seconds to end, and is cut then. Idempotent. In a
        process that was forked off later there is nothing to end.
        """
        if os.getpid() != self._pid:
            return
        with self._lock:
            self._closed = True
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)
        self._waiters.close()
        if self._following is not None:
            self._following.close()
        self._fleet.close()
        if pool is not None:
            self._end(pool)

    def _end(self, pool: ThreadPoolExecutor) -> None:
        """End the threads of *pool*; what they wait for too long is cut."""
        wait(self._pending.copy(), CLOSE_WITHIN_S)
        with self._lock:
            self._cuts, in_flight = True, set(self._in_flight)
        for connection in in_flight:
            connection.cut()
        pool.shutdown(wait=True)

    @property
    def targets(self) -> tuple[ServiceAddress, ...]:
        """The instances that may get a request now."""
        return tuple(slot.target for slot in self._fleet.slots)

    # --- inference ---

    def infer(self, *given: Any, **named: Any) -> Any:
        """Infer on one instance, and return tritonclient's ``InferResult``.

        The parameters are those of tritonclient's ``infer``. A refused connection is tried
        elsewhere. A connection that is cut before the answer is whole is so too, unless the client
        was made with ``retry_resets=False``: then the inference **may have been executed twice**.
        Requests of a sequence stay on the instance where it began, and are never repeated.

        Raises:
            InferenceServerException: Triton answered with an error.
            UnreachableError: No instance took it; the error names what was tried.
            TimedOutError: The answer did not come in time.
        """
        return self._infer(self._inference(given, named))

    def async_infer(self, *given: Any, **named: Any) -> PendingInference:
        """Infer as `infer` does, on a thread of this client's own."""
        request = self._inference(given, named)
        return PendingInference(self._begin(self._threads(), lambda: self._infer(request)))

    def _inference(self, given: tuple[Any, ...], named: dict[str, Any]) -> Prepared:
        if self.plugin() is not None:
            named["headers"] = plugged(self, named.get("headers"))
        return inference(*given, **named)

    def _infer(self, request: Prepared) -> Any:
        if request.in_sequence:
            answer = self._in_sequence(request)
        else:
            answer, _ = self._balanced(request, repeats=self._options.retry_resets)
        if answer.status_code != 200:  # noqa: PLR2004 (the only good answer)
            raise_if_error(answer)
        return InferResult(answer, self._verbose)

    # --- the fleet as one server ---

    def is_server_live(self, *given: Any, **named: Any) -> bool:
        """Return whether an instance is live; none in the view is False, at once."""
        return bool(self.targets) and bool(super().is_server_live(*given, **named))

    def is_server_ready(self, *given: Any, **named: Any) -> bool:
        """Return whether an instance is ready; none in the view is False, at once."""
        return bool(self.targets) and bool(super().is_server_ready(*given, **named))

    def is_model_ready(self, *given: Any, **named: Any) -> bool:
        """Return whether the model is ready on *every* instance: any may get the request."""
        said = self.each(lambda one: one.is_model_ready(*given, **named))
        return bool(said) and all(said.values())

    def get_inference_statistics(self, *given: Any, **named: Any) -> Any:
        """Return the statistics summed over the instances that are in the view now."""
        said = self.each(lambda one: one.get_inference_statistics(*given, **named))
        return summed(said.values())

    def load_model(self, *given: Any, **named: Any) -> None:
        """Load the model on every instance, and return once all in the view have it.

        The master does it, so those that start or come back later have it, too. Without a master,
        each Triton of the list is asked.

        Raises:
            TarnError: Somebody refuses it, or has not had it in time; the error names each.
        """
        if self._source is None:
            one_of(self.each(lambda one: one.load_model(*given, **named)))
        else:
            self._everywhere(self._source, load_call(*given, **named))

    def unload_model(self, *given: Any, **named: Any) -> None:
        """Unload the model on every instance, those that start later included; as `load_model`."""
        if self._source is None:
            one_of(self.each(lambda one: one.unload_model(*given, **named)))
        else:
            self._everywhere(self._source, unload_call(*given, **named))

    def update_trace_settings(self, *given: Any, **named: Any) -> Any:
        """Change them on every instance, later ones included; return what was changed.

        Without a master: return what one answered.
        """
        if self._source is None:
            return one_of(self.each(lambda one: one.update_trace_settings(*given, **named)))
        call = trace_call(*given, **named)
        self._everywhere(self._source, call)
        return call.body["settings"]

    def update_log_settings(self, *given: Any, **named: Any) -> Any:
        """Change them on every instance, later ones included; return what was changed.

        Without a master: return what one answered.
        """
        if self._source is None:
            return one_of(self.each(lambda one: one.update_log_settings(*given, **named)))
        call = log_call(*given, **named)
        self._everywhere(self._source, call)
        return call.body["settings"]

    def _everywhere(self, source: MasterSource, call: FleetCall) -> None:
        self._check()
        limit_s = self._options.control_within_s
        everywhere(source, call, self._clock, limit_s, threading.Event().wait)

    def each(self, ask: Callable[[SingleClient], T]) -> Mapping[str, T]:
        """Call *ask* with a client of every instance in the view, all at once.

        Returns:
            What it returned, by instance id (by address where no master says one).

        Raises:
            TarnError: It raised for some; the error names each.
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
        """Refuse: the memory would have to be registered with whoever gets the request."""
        raise RefusedError(
            "shared memory is between one client and one server, and a fleet has several",
            next_step="Use tritonclient itself, with the address of one instance",
        )

    get_system_shared_memory_status = register_system_shared_memory = _no_shared_memory
    unregister_system_shared_memory = get_cuda_shared_memory_status = _no_shared_memory
    register_cuda_shared_memory = unregister_cuda_shared_memory = _no_shared_memory

    # --- the way of one request ---

    def _send(self, request: Prepared) -> HttpResponse:
        # What comes here only reads: what changes something is asked of every instance.
        return self._balanced(request, repeats=True)[0]

    def _balanced(self, request: Prepared, *, repeats: bool) -> tuple[HttpResponse, PoolMember]:
        course = CallAttempts(
            self._fleet, self._clock, self._options, repeats=repeats, model=request.model
        )
        while True:
            self._check()
            slot = course.take()
            if slot is None:
                following = self._following
                left_s = course.left_s(following.trouble if following else "")
                with self._waiters.one():
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
                    return answer, slot

    def _at(self, slot: PoolMember, request: Prepared) -> HttpResponse:
        """Send *request* to *slot*, where it is counted in flight already."""
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
        """Let `close` cut *connection* meanwhile, where a thread of the pool waits on it."""
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

    def _in_sequence(self, request: Prepared) -> HttpResponse:
        """Send to where the sequence lives; only its first request may choose, or be refused."""
        home = None if request.starts else self._sequences.home(request.sequence)
        if home is None:
            answer, home = self._balanced(request, repeats=False)
            if not request.ends:
                self._sequences.settle(request.sequence, home)
            return answer
        self._check()
        self._fleet.take_this(home)
        try:
            answer = self._at(home, request)
        except WireError as error:
            self._sequences.forget(request.sequence)
            raise lost_sequence(request.sequence, home.target, error) from error
        if request.ends:
            self._sequences.forget(request.sequence)
        return answer

    # --- itself ---

    def _check(self) -> None:
        if self._closed:
            raise RefusedError("the client is closed")
        if os.getpid() != self._pid:
            raise RefusedError(
                f"the client was made by process {self._pid}, and this is {os.getpid()}",
                next_step="Make a client in each process, after the fork",
            )

    def _threads(self) -> ThreadPoolExecutor:
        self._check()
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(
                    MOST_THREADS, "tarn-client", lambda: setattr(self._own, "pooled", True)
                )
            return self._pool

    def _begin(self, pool: ThreadPoolExecutor, work: Callable[[], T]) -> "Future[T]":
        """Do *work* on a thread of *pool*."""
        try:
            future = pool.submit(work)
        except RuntimeError as error:  # closed since it was taken
            raise RefusedError("the client is closed") from error
        self._pending.add(future)
        future.add_done_callback(self._pending.discard)
        return future
