"""What a master remembers as bytes, for the next one: JSON, a line each, packed. Pure.

No call encodes more than one line, so that threads which answer users are never held up.
"""

import gzip
import io
import json
import math
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import attrs

from tarn.control.retained_history import RetainedHistory
from tarn.domain.counters import Counters, Growth
from tarn.domain.history import COLUMNS, FleetHistory, Grain, HistoryStep, Mean, Row
from tarn.domain.usage import SLOTS, FleetUsage, ResourceUse

__all__ = ["NAME", "read", "written"]

NAME = "history"
SCHEMA = 1
LARGEST = 64 << 20
"""Bytes, unpacked; nothing that was written here is so large."""


def written(past: RetainedHistory) -> bytes:
    """Return what a file of *past* holds."""
    lines = (json.dumps(line, allow_nan=False, separators=(",", ":")) for line in _lines(past))
    return gzip.compress(b"".join(f"{line}\n".encode() for line in lines), 6)


def _lines(past: RetainedHistory) -> Iterator[list[object]]:
    history, usage = past.history, past.usage
    yield ["tarn history", SCHEMA]
    yield ["looked", history.at, usage.at, sorted(usage.running)]
    yield from (["wrong", *key, since] for key, since in past.since.items())
    yield from (["seen", id_, *attrs.astuple(one)] for id_, one in history.counted.items())
    yield from (["used", id_, *attrs.astuple(one)] for id_, one in usage.instances.items())
    yield from _history(history)
    yield from _usage(usage)


def _history(history: FleetHistory) -> Iterator[list[object]]:
    for grain in history.grains:
        for row in grain.rows:
            yield ["row", grain.step_s, *row]
        if grain.open is not None:
            yield ["open", grain.step_s, *_plain(grain.open)]


def _usage(usage: FleetUsage) -> Iterator[list[object]]:
    for slots in usage.slots:
        for at, slot in slots.slots.items():
            for (kind, name), spent in slot.items():
                yield ["spent", slots.slot_s, at, kind, name, *attrs.astuple(spent)]


def _plain(step: HistoryStep) -> Iterator[object]:
    yield from (step.at, step.desired, step.ready, step.running)
    yield from (*attrs.astuple(step.load), *attrs.astuple(step.queue))
    if step.growth is not None:
        yield from (step.growth.seconds, *attrs.astuple(step.growth.counters))


def read(data: bytes) -> RetainedHistory:
    """Return the past that `written` made *data* of; lines of a kind that is not known are skipped.

    Raises:
        ValueError: It is damaged, or no file of this kind.
    """
    try:
        with gzip.open(io.BytesIO(data)) as packed:
            text = packed.read(LARGEST + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"it is damaged: {error}") from error
    lines = text.splitlines()
    if len(text) > LARGEST or not text.startswith(b'["tarn history"'):
        raise ValueError("it is not the history of a master")
    try:
        return _Reading().fold(json.loads(line) for line in lines[1:])
    except (TypeError, IndexError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError(f"a line of it is damaged: {error}") from error


class _Reading:
    """Takes lines, and makes a past of them."""

    def __init__(self) -> None:
        self._looked: list[Any] = [None, None, []]
        self._since: dict[tuple[str, str, str], float] = {}
        self._counted: dict[str, dict[str, Counters]] = {"seen": {}, "used": {}}
        self._rows: dict[int, list[Row]] = {}
        self._open: dict[int, HistoryStep] = {}
        self._slots: dict[int, dict[float, dict[tuple[str, str], ResourceUse]]] = {}
        self._kinds: dict[str, Callable[..., None]] = {
            "looked": self._take_looked,
            "wrong": self._take_wrong,
            "seen": lambda *said: self._take_counters("seen", *said),
            "used": lambda *said: self._take_counters("used", *said),
            "row": self._take_row,
            "open": self._take_open,
            "spent": self._take_spent,
        }

    def fold(self, lines: Iterable[list[Any]]) -> RetainedHistory:
        """Return what all *lines* say together."""
        for kind, *said in lines:
            if kind in self._kinds:
                self._kinds[kind](*said)
        seen_at, used_at, running = self._looked
        history = FleetHistory()
        grains = tuple(self._grain(grain) for grain in history.grains)
        slots = tuple(attrs.evolve(one, slots=self._slots.get(one.slot_s, {})) for one in SLOTS)
        return RetainedHistory(
            FleetHistory(grains, seen_at, self._counted["seen"]),
            FleetUsage(slots, used_at, self._counted["used"], frozenset(running)),
            self._since,
        )

    def _grain(self, grain: Grain) -> Grain:
        rows = tuple(self._rows.get(grain.step_s, ())[-grain.keep :])
        return attrs.evolve(grain, rows=rows, open=self._open.get(grain.step_s))

    def _take_looked(self, seen_at: object, used_at: object, running: list[Any]) -> None:
        self._looked = [_number(seen_at), _number(used_at), [str(id_) for id_ in running]]

    def _take_wrong(self, code: str, subject: str, detail: str, since: object) -> None:
        self._since[str(code), str(subject), str(detail)] = _known(since)

    def _take_counters(self, kind: str, id_: str, *said: object) -> None:
        self._counted[kind][str(id_)] = Counters(*map(_known, said))

    def _take_row(self, step_s: int, at: object, *said: object) -> None:
        if len(said) != len(COLUMNS) - 1:
            raise ValueError(f"a row has {len(said) + 1} numbers")
        self._rows.setdefault(int(step_s), []).append((_known(at), *map(_number, said)))

    def _take_open(self, step_s: int, at: object, *said: Any) -> None:
        desired, ready, running, load, loads, queue, queues, *grown = said
        growth = Growth(_known(grown[0]), Counters(*map(_known, grown[1:]))) if grown else None
        self._open[int(step_s)] = HistoryStep(
            _known(at),
            int(desired),
            int(ready),
            int(running),
            Mean(_known(load), int(loads)),
            Mean(_known(queue), int(queues)),
            growth,
        )

    def _take_spent(self, slot_s: int, at: object, kind: str, name: str, *said: object) -> None:
        slot = self._slots.setdefault(int(slot_s), {}).setdefault(_known(at), {})
        slot[str(kind), str(name)] = ResourceUse(*map(_known, said))


def _number(said: object) -> float | None:
    return None if said is None else _known(said)


def _known(said: object) -> float:
    """Return a finite number; anything else is a damaged line."""
    if isinstance(said, bool) or not isinstance(said, int | float) or not math.isfinite(said):
        raise ValueError(f"{said!r} is not a number")
    return said
