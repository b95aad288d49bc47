"""The client for asyncio: tritonclient's HTTP API over a whole fleet, on one event loop."""

import asyncio
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Self, TypeVar

from tritonclient.http import InferResult
from tritonclient.http.aio import InferenceServerClient
from tritonclient.utils import InferenceServerException

from tarn.client.affinity import RequestKey
from tarn.client.aio_connection import AioConnection
from tarn.client.attempts import (
    one_of,
    raise_if_error,
    several,
    single,
    whose_fault,
)
from tarn.client.control import everywhere, load_call, log_call, trace_call, unload_call
from tarn.client.http_connection import (
    CutError,
    HttpResponse,
    LateError,
    WireError,
)
from tarn.client.master_link import FleetLink, MasterSource
from tarn.client.pool import MOST_KEPT, PoolMember
from tarn.client.requests import Prepared, inference, plain, plugged
from tarn.client.targets import ClientOptions, ServiceAddress
from tarn.errors import RefusedError, TarnError
from tarn.follow import FleetCall
from tarn.triton.answers import Culprit
from tarn.triton.merged_answers import summed_statistics

__all__ = ["AioClient"]

T = TypeVar("T")
Json = dict[str, Any]


class _AioAnswer:
    """One whole answer, with the attributes that tritonclient's asyncio client reads."""

    def __init__(self, answer: HttpResponse) -> None:
        self.status, self.headers = answer.status_code, answer.headers
        self._body = answer.body

    async def read(self) -> bytes:
        """Return the body."""
        return self._body


class _AioTritonAdapter(InferenceServerClient):  # type: ignore[misc] # tritonclient has no types
    """tritonclient's coroutines, over our own transport."""

    def __init__(self) -> None:
        # Skips the constructor that makes tritonclient's transport.
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
    """tritonclient's client for exactly one instance."""

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
    """tritonclient's asyncio client for a fleet; the methods work as those of `HttpClient`.

    It belongs to the event loop that first uses it. A thread follows the view.

    Args:
        targets: The instances, if there is no master.
        source: Finds the master, which knows the instances; asked at the first use.
        options: Time limits and retries.
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
        self._router = self._link.router
        self._tls = self._options.tls
        self._idle: dict[PoolMember, list[AioConnection]] = {}
        self._connections: set[AioConnection] = set()
        self._begun: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()

    async def __aenter__(self) -> Self:
        await self._begin()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        names = ", ".join(target.name for target in self.targets)
        return f"AioClient({names or 'no instance'})"

    async def close(self) -> None:
        """Close the connections and end the thread; requests in flight are cut. Idempotent."""
        self._link.closed = True
        await asyncio.to_thread(self._link.close)
        self._idle.clear()
        ending = [connection.lost for connection in self._connections]
        for connection in tuple(self._connections):
            connection.close()
        await asyncio.gather(*ending)

    @property
    def targets(self) -> tuple[ServiceAddress, ...]:
        """The instances that may get requests now."""
        return self._link.targets

    # --- inference ---

    async def infer(self, *given: Any, **named: Any) -> Any:
        """Infer on one instance, as `HttpClient.infer` does; see there for retries and errors."""
        if self.plugin() is not None:
            named["headers"] = plugged(self, named.get("headers"))
        request = inference(*given, **named)
        await self._begin()
        key = self._router.key_of(request.model, request.sequence, request.headers, request.body)
        if key is not None and key.rule is None:
            answer = await self._in_sequence(request, key)
        else:
            answer, _ = await self._balanced(request, repeats=self._options.retry_resets, key=key)
        raise_if_error(answer)
        return InferResult(answer, self._verbose)

    # --- the fleet as one server ---

    async def is_server_live(self, *given: Any, **named: Any) -> bool:
        """Return whether an instance is live; False at once if there is none in the view."""
        await self._begin()
        return bool(self.targets) and bool(await super().is_server_live(*given, **named))

    async def is_server_ready(self, *given: Any, **named: Any) -> bool:
        """Return whether an instance is ready; False at once if there is none in the view."""
        await self._begin()
        return bool(self.targets) and bool(await super().is_server_ready(*given, **named))

    async def is_model_ready(self, *given: Any, **named: Any) -> bool:
        """Return whether the model is ready on every instance, since any may get a request."""
        said = await self.each(lambda one: one.is_model_ready(*given, **named))
        return bool(said) and all(said.values())

    async def get_inference_statistics(self, *given: Any, **named: Any) -> Any:
        """Return the sum of the statistics of all instances in the view."""
        said = await self.each(lambda one: one.get_inference_statistics(*given, **named))
        return summed_statistics(said.values())

    async def load_model(self, *given: Any, **named: Any) -> None:
        """Load the model on every instance; return once all in the view have it."""
        await self._of_all("load_model", load_call, given, named)

    async def unload_model(self, *given: Any, **named: Any) -> None:
        """Unload the model on every instance, including later ones."""
        await self._of_all("unload_model", unload_call, given, named)

    async def update_trace_settings(self, *given: Any, **named: Any) -> Any:
        """Change trace settings on every instance, including later ones; return the changes.

        Without a master, return the answer of one instance.
        """
        return await self._of_all("update_trace_settings", trace_call, given, named)

    async def update_log_settings(self, *given: Any, **named: Any) -> Any:
        """Change log settings on every instance, including later ones; return the changes.

        Without a master, return the answer of one instance.
        """
        return await self._of_all("update_log_settings", log_call, given, named)

    async def _of_all(
        self, name: str, made: Callable[..., FleetCall], given: tuple[Any, ...], named: Json
    ) -> Any:
        """Let every instance do the control call *name*; return the settings that it changes."""
        source = self._link.source
        if source is None:
            return one_of(await self.each(lambda one: getattr(one, name)(*given, **named)))
        call = made(*given, **named)
        await self._begin()
        limit_s, stop = self._options.control_within_s, threading.Event()

        def rest(pause_s: float) -> None:
            if stop.wait(pause_s):
                raise RefusedError("the call was cancelled")

        try:
            # On a thread, since the client of a master is a blocking one.
            await asyncio.to_thread(everywhere, source, call, self._link.clock, limit_s, rest)
        finally:
            stop.set()
        return call.body.get("settings")

    async def each(self, ask: Callable[[Any], Awaitable[T]]) -> Mapping[str, T]:
        """Await *ask* with a client for each instance in the view, concurrently.

        Returns:
            The results by instance id, or by address without a master.

        Raises:
            TarnError: Some calls failed; the error names each.
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
        # The memory would have to be registered with the instance that gets the request.
        raise RefusedError(
            "shared memory is between one client and one server, and a fleet has several",
            next_step="Use tritonclient itself, with the address of one instance",
        )

    get_system_shared_memory_status = register_system_shared_memory = _no_shared_memory
    unregister_system_shared_memory = get_cuda_shared_memory_status = _no_shared_memory
    register_cuda_shared_memory = unregister_cuda_shared_memory = _no_shared_memory

    # --- one request ---

    async def send_to(self, slot: PoolMember, request: Prepared) -> HttpResponse:
        """Send *request* to exactly this instance, once."""
        self._fleet.take_this(slot)
        try:
            return await self._at(slot, request)
        except WireError as error:
            raise single(slot.target, error) from error

    async def _send(self, request: Prepared) -> HttpResponse:
        # It only reads, so it may be repeated: methods that change something are overridden.
        return (await self._balanced(request, repeats=True))[0]

    async def _balanced(
        self, request: Prepared, *, repeats: bool, key: RequestKey | None = None
    ) -> tuple[HttpResponse, PoolMember]:
        await self._begin()
        home = None if key is None else self._router.home(key)
        course = self._link.call(request.model, repeats=repeats, key=key, home=home)
        while True:
            slot = course.take()
            if slot is None:
                left_s = self._link.left_s(course)
                with self._link.waiters.one():
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
                    if key is not None:
                        self._router.settle(key, slot)
                    return answer, slot

    async def _at(self, slot: PoolMember, request: Prepared) -> HttpResponse:
        """Send *request* to *slot*, where it is already counted as in flight."""
        answered, whose = False, None
        try:
            head = request.head(slot.target)
            connection = await self._connection(slot)
            answer = await connection.ask(head, request.body)
            answered, whose = True, whose_fault(answer)
            self._keep(slot, connection, answer)
        except LateError:
            whose = Culprit.SERVER
            raise
        finally:
            self._fleet.give_back(slot, None, answered=answered, model=request.model, whose=whose)
            if slot.gone and slot.in_flight == 0:
                self._let_go(slot)
        return answer

    async def _connection(self, slot: PoolMember) -> AioConnection:
        idle = self._idle.get(slot, [])
        while idle:
            connection = idle.pop()
            if connection.fresh:
                return connection
            connection.close()
        if slot.target.tls and self._tls is None:
            self._tls = ssl.create_default_context()
        connection = await AioConnection.open(slot.target, self._options, self._tls)
        self._connections.add(connection)
        connection.lost.add_done_callback(lambda _: self._connections.discard(connection))
        if self._link.closed:
            connection.close()
        self._link.check()
        return connection

    def _keep(self, slot: PoolMember, connection: AioConnection, answer: HttpResponse) -> None:
        """Keep *connection* for the next request, if it can carry one."""
        keeps = answer.keeps and not slot.gone and not self._link.closed
        if keeps and len(idle := self._idle.setdefault(slot, [])) < MOST_KEPT:
            idle.append(connection)
        else:
            connection.close()

    async def _in_sequence(self, request: Prepared, key: RequestKey) -> HttpResponse:
        """Send to the instance of the sequence, which its first request chooses."""
        if request.starts:
            self._router.forget(key)
        home = self._router.home(key)
        if home is None:
            answer, _ = await self._balanced(request, repeats=False, key=key)
        else:
            await self._begin()
            self._fleet.take_this(home)
            try:
                answer = await self._at(home, request)
            except LateError as error:
                raise single(home.target, error) from error
            except WireError as error:
                self._fleet.lost(home, request.model, connected=isinstance(error, CutError))
                raise self._router.lose(key, home, error) from error
        if request.ends:
            self._router.forget(key)
        return answer

    # --- itself ---

    async def _begin(self) -> None:
        """Ask the master once, then follow it; concurrent calls wait for the same task."""
        self._link.check()
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

        await asyncio.to_thread(self._link.look)
        self._fleet.listen(told)
        self._link.start()

    def _tidy(self) -> None:
        """Wake waiting calls, and close connections to instances that left the view."""
        self._changed.set()
        self._changed = asyncio.Event()
        for slot in [s for s in self._idle if s.gone and s.in_flight == 0]:
            self._let_go(slot)

    async def _wait(self, limit_s: float) -> None:
        changed = self._changed
        try:
            async with asyncio.timeout(self._fleet.pause_s(limit_s)):
                await changed.wait()
        except TimeoutError:
            return

    def _let_go(self, slot: PoolMember) -> None:
        for connection in self._idle.pop(slot, ()):
            connection.close()


_EXPECTED = (TarnError, InferenceServerException)
