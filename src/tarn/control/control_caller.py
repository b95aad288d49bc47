"""Send control calls to one instance: the wanted ones, and unloads before its stop.

Each call has its own connection, since Triton waits for open connections when it exits.
"""

import asyncio
from collections.abc import Callable, Iterable

import attrs

from tarn.control.http1 import Reply, request
from tarn.control.port_watcher import CancellableWait, ProbeFailure, ask_once
from tarn.domain import Endpoint, Known, ModelState, Sample, Unknown
from tarn.domain.control_calls import (
    CallKind,
    CallProgress,
    ControlCall,
    WantedCalls,
    next_call,
)
from tarn.interfaces import Clock
from tarn.triton.control import MOST_BYTES, failure_in, parse_index, path, question
from tarn.triton.restricted import Keys

__all__ = ["ControlCaller", "Unloading"]

# Time limit of all calls but a load, which Triton answers only when the model is READY.
SETTINGS_WITHIN_S = 10.0
# Pause after a call that this machine could not send.
LACK_PAUSE_S = 5.0


class ControlCaller:
    """Sends one instance the wanted calls that it lacks; on the scraper's loop.

    A call that is refused or not answered is sent again after a pause, a few times.

    Args:
        endpoint: The instance's Triton.
        keys: Keys of Triton's restricted parts.
        load_within_s: Time limit of one load.
        clock: Monotonic seconds.
        progress: The calls that the instance has had already.
        told: Called with the progress after each step.
    """

    def __init__(  # noqa: PLR0913 (all by keyword)
        self,
        *,
        endpoint: Endpoint,
        keys: Keys,
        load_within_s: float,
        clock: Clock,
        progress: CallProgress,
        told: Callable[[CallProgress], None],
    ) -> None:
        self._endpoint, self._keys, self._load_within_s = endpoint, keys, load_within_s
        self._clock, self._told = clock, told
        self._wanted = WantedCalls()
        self._ready: frozenset[str] = frozenset()
        self._live, self._paused = False, True
        self.progress = progress
        self._alarm = CancellableWait()

    def want(self, wanted: WantedCalls) -> None:
        """Send the calls in *wanted* from now on; `NO_CALLS`: send nothing more."""
        self._paused = not wanted.number
        if wanted.number and wanted is not self._wanted:
            self._wanted = wanted
        self._alarm.ring()

    def seen(self, models: tuple[ModelState, ...]) -> None:
        """Note that the instance answers, with *models*; nothing is sent before the first time."""
        self._ready = frozenset(model.name for model in models if model.state == "READY")
        if not self._live:
            self._live = True
            self.progress = self.progress.seen_again()
            self._alarm.ring()

    def lost(self) -> None:
        """Note that the instance does not answer; nothing is sent until it does."""
        self._live = False

    async def run(self) -> None:
        """Send the lacking calls until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            call, wait_s = None, None
            if self._live and not self._paused:
                self._tell(self.progress.pruned(self._wanted))
                call, wait_s = next_call(self._wanted, self.progress, self._clock.now_s())
            if call is not None:
                await self._do(call)
                continue
            until_s = loop.time() + (60.0 if wait_s is None else wait_s)
            await self._alarm.wait_until(until_s)

    async def _do(self, call: ControlCall) -> None:
        wanted = self._wanted
        if call.plain and call.number <= self.progress.born and call.model in self._ready:
            self._tell(self.progress.did(call.number, wanted))  # its start has loaded the same
            return
        self._tell(self.progress.sent(call.number))
        where, part, body = question(call)
        headers = self._keys.of(part)
        asked = request("POST", where, self._endpoint.http, body=body, headers=headers)
        load = call.kind is CallKind.LOAD
        within_s = self._load_within_s if load else SETTINGS_WITHIN_S
        answer = await ask_once(self._endpoint, asked, within_s)
        now_s, wanted = self._clock.now_s(), self._wanted
        match answer:
            case Reply(status=200):
                self._tell(self.progress.did(call.number, wanted))
            case Reply():
                error = failure_in(answer.status, answer.body)
                self._tell(self.progress.said_no(call.number, error, now_s, wanted))
            case ProbeFailure(own=True):
                self._tell(self.progress.unanswered())
                await asyncio.sleep(LACK_PAUSE_S)
            case ProbeFailure():
                self._tell(self.progress.said_no(call.number, answer.reason, now_s, wanted))

    def _tell(self, progress: CallProgress) -> None:
        if progress is not self.progress:
            self.progress = progress
            self._told(progress)


# Time limit of one request; Triton answers at once, a starved machine later.
TIMEOUT_S = 5.0
LOOK_EVERY_S = 0.1
# Pause after a request that was not answered.
AGAIN_S = 1.0
_INDEX = "/v2/repository/index"
_OK = 200


@attrs.frozen
class Unloading:
    """Unloads every model of one Triton, one after the other; on the scraper's loop.

    Triton unloads a model only after its last request, so this proves that all have ended.
    """

    endpoint: Endpoint
    headers: tuple[tuple[str, str], ...]
    """The key of Triton's control API, if that is restricted."""
    first: Callable[[Iterable[str]], str]
    """Returns which of the given models to unload next."""
    said: Callable[[Sample[bool]], None]
    """Called with Known(False) while models are left, then with Known(True) when none is, or with
    Unknown if Triton refuses."""

    async def run(self) -> None:
        """Unload until no model is left, or Triton refuses; unanswered requests are repeated."""
        self.said(Known(value=False))
        while True:
            reply = await self._ask(_INDEX)
            if reply is None:
                await asyncio.sleep(AGAIN_S)
                continue
            if (last := await self._step(reply)) is not None:
                self.said(last)
                return
            await asyncio.sleep(LOOK_EVERY_S)

    async def _step(self, index: Reply) -> Sample[bool] | None:
        """Unload the next model if none is unloading; return the result if it is final."""
        if index.status != _OK:
            return _refusal(_INDEX, index)
        try:
            models = parse_index(index.body)
        except ValueError as error:
            return Unknown(f"cannot read the repository index: {error}")
        ready = [m.name for m in models if m.state == "READY"]
        if any(m.state in ("LOADING", "UNLOADING") for m in models):
            return None
        if not ready:
            return Known(value=True)
        where = path(self.first(ready))
        reply = await self._ask(where)
        return None if reply is None or reply.status == _OK else _refusal(where, reply)

    async def _ask(self, where: str) -> Reply | None:
        """Return the answer; None if there was none."""
        asked = request("POST", where, self.endpoint.http, headers=self.headers)
        reply = await ask_once(self.endpoint, asked, TIMEOUT_S, MOST_BYTES)
        return reply if isinstance(reply, Reply) else None


def _refusal(where: str, reply: Reply) -> Unknown:
    said = reply.body[:200].decode(errors="replace").strip()
    return Unknown(f"Triton refused POST {where}: {reply.status} {said}".strip())
