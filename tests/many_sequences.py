"""Many sequences at once, over HTTP and gRPC, and what became of each.

Each sends three to fifty small whole numbers, and knows which sum every answer must have. A client
that got an error gives its sequence up; a wrong sum would be unforgivable.
"""

import asyncio
import itertools
import random
import re
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any, Self

import attrs
import numpy as np
import tritonclient.grpc as triton_grpc
import tritonclient.grpc.aio as triton_grpc_aio
import tritonclient.http as triton_http
import tritonclient.http.aio as triton_http_aio
from one_address import Addresses

__all__ = ["FEWEST", "MOST", "SequenceLoad", "SequenceOutcome", "SequenceTally"]

FEWEST, MOST = 3, 50
"""Steps of a sequence."""
WITHIN_S = 120.0
"""For so long a client waits for one answer."""
CHANNELS = 8
_DIGITS = re.compile(r"\d+")
_FIRST_ID = 2**40
"""Ids that differ only in their last digits, and that no float of 32 bits tells apart."""


@attrs.frozen
class SequenceOutcome:
    """What became of one sequence."""

    kind: str
    error: str = ""
    wrong: str = ""
    who: int = 0
    """The process that answered last; 0: none did."""


class SequenceTally:
    """The outcomes of all sequences; any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._outcomes: list[SequenceOutcome] = []

    def note(self, outcome: SequenceOutcome) -> None:
        """Add one."""
        with self._changed:
            self._outcomes.append(outcome)
            self._changed.notify_all()

    def pass_(self, count: int, within_s: float) -> None:
        """Wait until *count* more have ended."""
        with self._changed:
            goal = len(self._outcomes) + count
            assert self._changed.wait_for(lambda: len(self._outcomes) >= goal, within_s), self

    @property
    def outcomes(self) -> Sequence[SequenceOutcome]:
        """Those so far."""
        with self._changed:
            return tuple(self._outcomes)

    @property
    def wrong(self) -> list[str]:
        """What was wrong with each that had a wrong sum."""
        return [f"{one.kind}: {one.wrong}" for one in self.outcomes if one.wrong]

    def failed(self, *, of: frozenset[int] = frozenset()) -> list[SequenceOutcome]:
        """Return those that ended with an error, without those whose process was one *of* these."""
        return [one for one in self.outcomes if one.error and one.who not in of]

    def __str__(self) -> str:
        every = self.outcomes
        lines = []
        for kind in sorted({one.kind for one in every}):
            mine = [one for one in every if one.kind == kind]
            bad = sum(bool(one.error) for one in mine)
            wrong = sum(bool(one.wrong) for one in mine)
            right = len(mine) - bad - wrong
            lines.append(f"{kind}: {right} right, {bad} with an error, {wrong} wrong")
        errors = Counter(f"{one.kind}: {one.error}" for one in every if one.error)
        lines += [f"  {count} x {text}" for text, count in errors.most_common(12)]
        return "\n".join(lines)


@attrs.frozen
class _Sequence:
    """One sequence: its id, and the numbers that it sends."""

    key: int
    values: tuple[int, ...]

    def step(self, number: int) -> dict[str, Any]:
        """Return what a client says besides the model and the number itself."""
        last = number == len(self.values) - 1
        return {"sequence_id": self.key, "sequence_start": number == 0, "sequence_end": last}

    def wrong(self, number: int, result: Any) -> str:
        """Say what is wrong with the answer to a step; empty: nothing."""
        total, steps = float(result.as_numpy("OUT")[0, 0]), int(result.as_numpy("STEPS")[0, 0])
        awaited = float(sum(self.values[: number + 1])), number + 1
        return "" if (total, steps) == awaited else f"{(total, steps)} instead of {awaited}"


@attrs.frozen
class _Clients:
    """The clients that all sequences share."""

    http: Any
    grpc: Sequence[Any]

    def channel(self, key: int) -> Any:
        """Return the gRPC client of a sequence."""
        return self.grpc[key % len(self.grpc)]


Pause = Callable[[], Coroutine[Any, Any, None]]
Answers = AsyncIterator[Any]


def _tensors(module: Any, value: int) -> list[Any]:
    tensor = module.InferInput("IN", [1, 1], "FP32")
    tensor.set_data_from_numpy(np.array([[value]], np.float32))
    return [tensor]


async def _by_http(clients: _Clients, model: str, one: _Sequence, pause: Pause) -> Answers:
    for number, value in enumerate(one.values):
        tensors = _tensors(triton_http, value)
        yield await clients.http.infer(model, tensors, **one.step(number))
        await pause()


async def _by_grpc(clients: _Clients, model: str, one: _Sequence, pause: Pause) -> Answers:
    client = clients.channel(one.key)
    for number, value in enumerate(one.values):
        tensors = _tensors(triton_grpc, value)
        yield await client.infer(model, tensors, client_timeout=WITHIN_S, **one.step(number))
        await pause()


async def _by_stream(clients: _Clients, model: str, one: _Sequence, pause: Pause) -> Answers:
    go_on = asyncio.Semaphore(1)

    async def requests() -> AsyncIterator[dict[str, Any]]:
        for number, value in enumerate(one.values):
            await go_on.acquire()
            tensors = _tensors(triton_grpc, value)
            yield {"model_name": model, "inputs": tensors, **one.step(number)}

    answers = clients.channel(one.key).stream_infer(requests(), stream_timeout=600)
    async for result, error in answers:
        if error is not None:
            raise error
        yield result
        await pause()
        go_on.release()


KINDS = {
    "HTTP, oldest": (_by_http, "accumulate_oldest"),
    "gRPC, oldest": (_by_grpc, "accumulate_oldest"),
    "gRPC stream, oldest": (_by_stream, "accumulate_oldest"),
    "HTTP, direct": (_by_http, "accumulate"),
    "gRPC, direct": (_by_grpc, "accumulate"),
}
DRAWN = ("HTTP, oldest",) * 4 + ("gRPC, oldest",) * 3 + ("gRPC stream, oldest",) * 2
DIRECT = ("HTTP, direct", "gRPC, direct")
"""One in ten; they hold one of few slots, and do not pause."""


class SequenceLoad:
    """So many sequences under way at once, until it is ended; a context that owns its thread.

    Args:
        at: Where they are sent.
        at_once: How many; when one ends, another begins.
        rate: Steps a second of all of them together.
        seed: What is drawn is the same for the same number.
    """

    def __init__(self, at: Addresses, at_once: int, rate: float, seed: int) -> None:
        self.tally = SequenceTally()
        self._at, self._at_once = at, at_once
        self._gap_s = at_once / rate
        self._keys = itertools.count(_FIRST_ID + seed * 1_000_000)
        self._random = random.Random(seed)
        self._ended = threading.Event()
        self._problem: BaseException | None = None
        self._thread = threading.Thread(target=self._main, name="sequences")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        """Let those under way end, and wait for them."""
        self._ended.set()
        self._thread.join(WITHIN_S + 2 * MOST * self._gap_s)
        assert not self._thread.is_alive(), f"sequences still run: {self.tally}"
        if self._problem is not None:
            raise self._problem

    def _main(self) -> None:
        try:
            asyncio.run(self._all())
        except BaseException as error:  # noqa: BLE001 (raised where the load is ended)
            self._problem = error

    async def _all(self) -> None:
        http = triton_http_aio.InferenceServerClient(
            self._at.http, conn_limit=1000, conn_timeout=WITHIN_S
        )
        grpc = [
            # A channel of its own each: gRPC shares connections between equal ones.
            triton_grpc_aio.InferenceServerClient(self._at.grpc, channel_args=[("channel", n)])
            for n in range(CHANNELS)
        ]
        clients = _Clients(http, grpc)
        try:
            await asyncio.gather(*(self._one_by_one(clients) for _ in range(self._at_once)))
        finally:
            await asyncio.gather(*(client.close() for client in (http, *grpc)))

    async def _one_by_one(self, clients: _Clients) -> None:
        """Send one sequence after another."""
        await self._pause()
        while True:
            kind = self._random.choice(DIRECT if self._random.random() < 0.1 else DRAWN)
            count = self._random.randint(FEWEST, MOST)
            values = tuple(self._random.randint(1, 99) for _ in range(count))
            one = _Sequence(next(self._keys), values)
            self.tally.note(await self._outcome(clients, kind, one))
            if self._ended.is_set():
                return
            await self._pause()

    async def _outcome(self, clients: _Clients, kind: str, one: _Sequence) -> SequenceOutcome:
        by, model = KINDS[kind]
        pause = self._no_pause if kind in DIRECT else self._pause
        who = number = 0
        try:
            async for result in by(clients, model, one, pause):
                if wrong := one.wrong(number, result):
                    return SequenceOutcome(kind, wrong=f"id {one.key}, {wrong}", who=who)
                who = int(result.as_numpy("WHO")[0, 0])
                number += 1
        except Exception as error:  # noqa: BLE001 (whatever it is, the sequence ended with it)
            text = _DIGITS.sub("N", f"{type(error).__name__} {error}")[:140]
            return SequenceOutcome(kind, error=text, who=who)
        if number < len(one.values):
            return SequenceOutcome(kind, error="fewer answers than requests, no error", who=who)
        return SequenceOutcome(kind, who=who)

    async def _pause(self) -> None:
        await asyncio.sleep(self._random.uniform(0.5, 1.5) * self._gap_s)

    async def _no_pause(self) -> None:
        await asyncio.sleep(0)
