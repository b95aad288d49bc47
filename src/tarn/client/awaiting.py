"""The client for asyncio: tritonclient's HTTP API over a whole fleet, on one event loop."""

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Self, TypeVar

import aiohttp
from tritonclient.http import InferResult
from tritonclient.http.aio import InferenceServerClient
from tritonclient.utils import InferenceServerException

from tarn.client.attempts import CallAttempts
from tarn.client.control import everywhere, load_call, log_call, trace_call, unload_call
from tarn.client.demand_reporter import DemandReporter
from tarn.client.failing import (
    lost_sequence,
    one_of,
    raise_if_error,
    several,
    single,
    whose_fault,
)
from tarn.client.http_connection import (
    CutError,
    HttpResponse,
    LateError,
    NotConnectedError,
    WireError,
)
from tarn.client.options import ClientOptions
from tarn.client.pool import InstancePool, PoolMember
from tarn.client.requests import Prepared, inference, plain, plugged
from tarn.client.sequences import Sequences
from tarn.client.statistics import summed
from tarn.client.targets import ServiceAddress
from tarn.client.views import MasterSource, PoolFollower
from tarn.clock import SystemClock
from tarn.errors import RefusedError, TarnError
from tarn.follow import FleetCall
from tarn.triton.answers import Culprit

__all__ = ["AioClient"]

T = TypeVar("T")


class _AioAnswer:
    """One whole answer, with the face that tritonclient's asyncio client expects."""

    def __init__(self, answer: HttpResponse) -> None:
        self.status, self.headers = answer.status_code, answer.headers
        self._body = answer.body

    async def read(self) -> bytes:
        """Return the body."""
        return self._body


class _AioTritonAdapter(InferenceServerClient):  # type: ignore[misc] # tritonclient has no types
    """tritonclient's coroutines, over a transport of ours."""

    def __init__(self) -> None:
        # Not its own constructor, which makes the transport that is replaced here.
        super(InferenceServerClient, self).__init__()
        self._verbose = False

    async def _send(self, request: Prepared) -> HttpResponse:
        raise NotImplementedError

    async def _get(self, request_uri: str, headers: Any, query_params: Any) -> _AioAnswer:
        request = plain("GET", request_uri, b"", plugged(self, headers), query_params)
        return _AioAnswer(await self._send(request))

    async def _post(
        self, request_uri: str, request_body: Any, headers: Any, query_params: Any
    ) -> _AioAnswer:
        request = plain("POST", request_uri, request_body, plugged(self, headers), query_params)
        return _AioAnswer(await self._send(request))


class _Single(_AioTritonAdapter):
    """tritonclient's client of exactly one instance."""

    def __init__(self, owner: "AioClient", slot: PoolMember) -> None:
        super().__init__()
        self._owner, self._slot = owner, slot
        if owner.plugin() is not None:
            self.register_plugin(owner.plugin())

    async def close(self) -> None:
        """Do nothing: the connections belong to the fleet's client."""

    async def _send(self, request: Prepared) -> HttpResponse:
        return await self._owner.send_to(self._slot, request)


class AioClient(_AioTritonAdapter):
    """tritonclient's asyncio client for a fleet; the methods mean what those of `HttpClient` do.

    It belongs to the event loop that first uses it. One thread of its own follows the view.

    Args:
        targets: The instances, when no master says them.
        source: Finds the master that says them; asked when the client is first used.
        options: How patient it is.
    """

    def __init__(
        self,
        targets: Iterable[ServiceAddress] = (),
        source: MasterSource | None = None,
        options: ClientOptions | None = None,
    ) -> None:
        super().__init__()
        self._options, self._clock = options or ClientOptions(), SystemClock()
        self._fleet = InstancePool(self._clock)
        self._fleet.set_members(targets)
        self._sequences = Sequences()
        self._sessions: dict[PoolMember, aiohttp.ClientSession] = {}
        self._closings: set[asyncio.Task[None]] = set()
        self._source = source
        self._waiters = DemandReporter(source, self._fleet)
        self._following = None if source is None else PoolFollower(source, self._fleet, self._clock)
        self._begun: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._closed, self._pid = False, os.getpid()

    async def __aenter__(self) -> Self:
        await self._begin()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        names = ", ".join(target.name for target in self.targets)
        return f"AioClient({names or 'no instance'})"

    async def close(self) -> None:
        """End its thread and its connections. Idempotent."""
        self._closed = True
        await asyncio.to_thread(self._waiters.close)
        if self._following is not None:
            await asyncio.to_thread(self._following.close)
        self._fleet.close()
        sessions, self._sessions = list(self._sessions.values()), {}
        for session in sessions:
            await session.close()
        await asyncio.gather(*self._closings, return_exceptions=True)

    @property
    def targets(self) -> tuple[ServiceAddress, ...]:
        """The instances that may get a request now."""
        return tuple(slot.target for slot in self._fleet.slots)

    # --- inference ---

    async def infer(self, *given: Any, **named: Any) -> Any:
        """Infer on one instance, as `HttpClient.infer` does, with the same warning and errors."""
        if self.plugin() is not None:
            named["headers"] = plugged(self, named.get("headers"))
        request = inference(*given, **named)
        if request.in_sequence:
            answer = await self._in_sequence(request)
        else:
            answer, _ = await self._balanced(request, repeats=self._options.retry_resets)
        raise_if_error(answer)
        return InferResult(answer, self._verbose)

    # --- the fleet as one server ---

    async def is_server_live(self, *given: Any, **named: Any) -> bool:
        """Return whether an instance is live; none in the view is False, at once."""
        await self._begin()
        return bool(self.targets) and bool(await super().is_server_live(*given, **named))

    async def is_server_ready(self, *given: Any, **named: Any) -> bool:
        """Return whether an instance is ready; none in the view is False, at once."""
        await self._begin()
        return bool(self.targets) and bool(await super().is_server_ready(*given, **named))

    async def is_model_ready(self, *given: Any, **named: Any) -> bool:
        """Return whether the model is ready on *every* instance: any may get the request."""
        said = await self.each(lambda one: one.is_model_ready(*given, **named))
        return bool(said) and all(said.values())

    async def get_inference_statistics(self, *given: Any, **named: Any) -> Any:
        """Return the statistics summed over the instances that are in the view now."""
        said = await self.each(lambda one: one.get_inference_statistics(*given, **named))
        return summed(said.values())

    async def load_model(self, *given: Any, **named: Any) -> None:
        """Load the model on every instance, and return once all in the view have it."""
        if self._source is None:
            one_of(await self.each(lambda one: one.load_model(*given, **named)))
        else:
            await self._everywhere(self._source, load_call(*given, **named))

    async def unload_model(self, *given: Any, **named: Any) -> None:
        """Unload the model on every instance, those that start later included."""
        if self._source is None:
            one_of(await self.each(lambda one: one.unload_model(*given, **named)))
        else:
            await self._everywhere(self._source, unload_call(*given, **named))

    async def update_trace_settings(self, *given: Any, **named: Any) -> Any:
        """Change them on every instance, later ones included; return what was changed.

        Without a master: return what one answered.
        """
        if self._source is None:
            return one_of(await self.each(lambda one: one.update_trace_settings(*given, **named)))
        call = trace_call(*given, **named)
        await self._everywhere(self._source, call)
        return call.body["settings"]

    async def update_log_settings(self, *given: Any, **named: Any) -> Any:
        """Change them on every instance, later ones included; return what was changed.

        Without a master: return what one answered.
        """
        if self._source is None:
            return one_of(await self.each(lambda one: one.update_log_settings(*given, **named)))
        call = log_call(*given, **named)
        await self._everywhere(self._source, call)
        return call.body["settings"]

    async def _everywhere(self, source: MasterSource, call: FleetCall) -> None:
        """Wait on a thread: the way to a master is a blocking one."""
        await self._begin()
        limit_s, stop = self._options.control_within_s, threading.Event()

        def rest(pause_s: float) -> None:
            if stop.wait(pause_s):
                raise RefusedError("nobody waits for it any more")

        try:
            await asyncio.to_thread(everywhere, source, call, self._clock, limit_s, rest)
        finally:
            stop.set()

    async def each(self, ask: Callable[[Any], Awaitable[T]]) -> Mapping[str, T]:
        """Await *ask* with a client of every instance in the view, all at once.

        Returns:
            What it returned, by instance id (by address where no master says one).

        Raises:
            TarnError: It raised for some; the error names each.
        """
        await self._begin()
        slots = self._fleet.slots
        names = [slot.target.instance_id or slot.target.address for slot in slots]
        asked = (ask(_Single(self, slot)) for slot in slots)
        said = dict(zip(names, await asyncio.gather(*asked, return_exceptions=True), strict=True))
        failed = {n: e for n, e in said.items() if isinstance(e, _EXPECTED)}
        if failed:
            raise several(failed, len(said))
        for outcome in said.values():
            if isinstance(outcome, BaseException):
                raise outcome
        return {n: one for n, one in said.items() if not isinstance(one, BaseException)}

    async def _no_shared_memory(self, *_given: Any, **_named: Any) -> Any:
        """Refuse: the memory would have to be registered with whoever gets the request."""
        raise RefusedError(
            "shared memory is between one client and one server, and a fleet has several",
            next_step="Use tritonclient itself, with the address of one instance",
        )

    get_system_shared_memory_status = register_system_shared_memory = _no_shared_memory
    unregister_system_shared_memory = get_cuda_shared_memory_status = _no_shared_memory
    register_cuda_shared_memory = unregister_cuda_shared_memory = _no_shared_memory

    # --- the way of one request ---

    async def send_to(self, slot: PoolMember, request: Prepared) -> HttpResponse:
        """Send *request* to exactly this instance, once."""
        self._fleet.take_this(slot)
        try:
            return await self._at(slot, request)
        except WireError as error:
            raise single(slot.target, error) from error

    async def _send(self, request: Prepared) -> HttpResponse:
        # What comes here only reads: what changes something is asked of every instance.
        return (await self._balanced(request, repeats=True))[0]

    async def _balanced(
        self, request: Prepared, *, repeats: bool
    ) -> tuple[HttpResponse, PoolMember]:
        await self._begin()
        course = CallAttempts(
            self._fleet, self._clock, self._options, repeats=repeats, model=request.model
        )
        while True:
            slot = course.take()
            if slot is None:
                following = self._following
                left_s = course.left_s(following.trouble if following else "")
                with self._waiters.one():
                    await self._wait(left_s)
                await self._begin()
                continue
            try:
                answer = await self._at(slot, request)
            except WireError as error:
                course.failed(slot, error)
            else:
                busy = answer.status_code == 503  # noqa: PLR2004
                again = course.elsewhere(slot) if busy else course.spared(slot, whose_fault(answer))
                if not again:
                    return answer, slot

    async def _at(self, slot: PoolMember, request: Prepared) -> HttpResponse:
        """Send *request* to *slot*, where it is counted in flight already."""
        answered, whose = False, None
        try:
            answer = await self._over(self._session(slot), slot.target, request)
            answered, whose = True, whose_fault(answer)
        except LateError:
            whose = Culprit.SERVER
            raise
        finally:
            self._fleet.give_back(slot, None, answered=answered, model=request.model, whose=whose)
            if slot.gone and slot.in_flight == 0:
                self._let_go(slot)
        return answer

    async def _over(
        self, session: aiohttp.ClientSession, target: ServiceAddress, request: Prepared
    ) -> HttpResponse:
        headers = {str(name): str(value) for name, value in request.headers.items()}
        body = request.body if request.method == "POST" else None
        url = f"{target.url}/{request.uri}"
        try:
            async with session.request(request.method, url, data=body, headers=headers) as response:
                whole = await response.read()
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise NotConnectedError(str(error)) from error
        except TimeoutError as error:
            found = f"no answer for {self._options.answer_within_s:g} s"
            raise LateError(found) from error
        except (aiohttp.ClientError, ConnectionError) as error:
            raise CutError(str(error) or type(error).__name__) from error
        found_headers = {name.lower(): value for name, value in response.headers.items()}
        return HttpResponse(response.status, found_headers, whole)

    async def _in_sequence(self, request: Prepared) -> HttpResponse:
        """Send to where the sequence lives; only its first request may choose, or be refused."""
        home = None if request.starts else self._sequences.home(request.sequence)
        if home is None:
            answer, home = await self._balanced(request, repeats=False)
            if not request.ends:
                self._sequences.settle(request.sequence, home)
            return answer
        await self._begin()
        self._fleet.take_this(home)
        try:
            answer = await self._at(home, request)
        except WireError as error:
            self._sequences.forget(request.sequence)
            raise lost_sequence(request.sequence, home.target, error) from error
        if request.ends:
            self._sequences.forget(request.sequence)
        return answer

    # --- itself ---

    async def _begin(self) -> None:
        """Ask the master once, then follow it; whoever comes meanwhile waits for the same."""
        if self._closed:
            raise RefusedError("the client is closed")
        if os.getpid() != self._pid:
            raise RefusedError("the client was made by another process: make one in each")
        begun = self._begun
        if begun is None or (begun.done() and begun.exception() is not None):
            begun = self._begun = asyncio.get_running_loop().create_task(self._follow())
        if not begun.done():
            await asyncio.shield(begun)

    async def _follow(self) -> None:
        loop = asyncio.get_running_loop()

        def told() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._tidy)

        if self._following is not None:
            await asyncio.to_thread(self._following.look)
        self._fleet.listen(told)
        if self._following is not None:
            self._following.start()

    def _tidy(self) -> None:
        """After a change of the view: wake who waits, close what is idle and gone."""
        self._changed.set()
        self._changed = asyncio.Event()
        for slot in [s for s in self._sessions if s.gone and s.in_flight == 0]:
            self._let_go(slot)

    async def _wait(self, limit_s: float) -> None:
        changed = self._changed
        try:
            async with asyncio.timeout(self._fleet.pause_s(limit_s)):
                await changed.wait()
        except TimeoutError:
            return

    def _session(self, slot: PoolMember) -> aiohttp.ClientSession:
        session = self._sessions.get(slot)
        if session is None:
            if self._closed:
                raise RefusedError("the client is closed")
            options = self._options
            timeout = aiohttp.ClientTimeout(
                total=None, sock_connect=options.connect_within_s, sock_read=options.answer_within_s
            )
            tls = True if options.tls is None else options.tls
            connector = aiohttp.TCPConnector(ssl=tls, limit=0)
            session = aiohttp.ClientSession(
                connector=connector, timeout=timeout, auto_decompress=False, trust_env=False
            )
            self._sessions[slot] = session
        return session

    def _let_go(self, slot: PoolMember) -> None:
        session = self._sessions.pop(slot, None)
        if session is not None:
            task = asyncio.get_running_loop().create_task(session.close())
            self._closings.add(task)
            task.add_done_callback(self._closings.discard)


_EXPECTED = (TarnError, InferenceServerException)
