"""Brings one instance up to the control calls that are wanted, one after the other."""

import asyncio
from collections.abc import Callable

from tarn.control.http1 import Reply, connect, request
from tarn.control.port_watcher import CancellableWait, ProbeFailure, attempt
from tarn.domain import Endpoint, ModelState
from tarn.domain.control_calls import (
    CallKind,
    CallProgress,
    ControlCall,
    WantedCalls,
    next_call,
)
from tarn.interfaces import Clock
from tarn.triton.control import failure_in, question
from tarn.triton.restricted import Keys

__all__ = ["ControlCaller"]

SETTINGS_WITHIN_S = 10.0
"""For everything but a load, which Triton answers only when the model is READY."""
LACK_PAUSE_S = 5.0
"""After a call that this machine could not send."""


class ControlCaller:
    """Sends one instance what it lacks; on the scraper's loop.

    A call that is refused, or brings no answer, is sent again after a pause, a few times. Each has
    a connection of its own: one that is kept would hold Triton's exit.

    Args:
        endpoint: Where.
        keys: What opens Triton's restricted parts.
        load_within_s: For one load.
        clock: Monotonic seconds.
        progress: What it has had already.
        told: Hears of each step.
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
        """Take *wanted* as what it must have had; `NO_CALLS`: nothing more is sent."""
        self._paused = not wanted.number
        if wanted.number and wanted is not self._wanted:
            self._wanted = wanted
        self._alarm.ring()

    def seen(self, models: tuple[ModelState, ...]) -> None:
        """Hear that it is live, and itself; nothing is sent before the first time."""
        self._ready = frozenset(model.name for model in models if model.state == "READY")
        if not self._live:
            self._live = True
            self.progress = self.progress.seen_again()
            self._alarm.ring()

    def lost(self) -> None:
        """Hear that it does not answer: nothing is sent until it is seen again."""
        self._live = False

    async def run(self) -> None:
        """Send what is lacking until cancelled."""
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
            self._tell(self.progress.did(call.number, wanted))  # its start read the same
            return
        self._tell(self.progress.sent(call.number))
        answer = await self._ask(call)
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

    async def _ask(self, call: ControlCall) -> Reply | ProbeFailure:
        """Return the answer, or why there was none."""
        endpoint = self._endpoint
        replies: list[Reply] = []
        path, part, body = question(call)
        headers = self._keys.of(part)
        asked = request("POST", path, endpoint.http, body=body, headers=headers)

        async def ask() -> None:
            connection = await connect(endpoint.host, endpoint.http_port, lambda: None)
            try:
                replies.append(await connection.ask(asked))
            finally:
                connection.close()

        load = call.kind is CallKind.LOAD
        within_s = self._load_within_s if load else SETTINGS_WITHIN_S
        failure = await attempt(endpoint.http, within_s, ask())
        return replies[0] if failure is None else failure
