"""The history that a master keeps, and its form as bytes for the next one. Pure.

It consists of sizes and rates, usage, and the beginnings of alerts. The bytes are compressed lines
of JSON. Each call of the encoder makes one line, so that it never delays the threads that answer
users.
"""

import gzip
import io
import json
import math
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import attrs

from tarn.domain import PLACED
from tarn.domain.counters import CounterSet, newest_known
from tarn.domain.history import (
    COLUMNS,
    FleetHistory,
    Grain,
    Growth,
    HistorySample,
    HistoryStep,
    Mean,
    Row,
)
from tarn.domain.usage import SLOTS, FleetUsage, ResourceUse, UsageSample
from tarn.read.alerts import Key, onsets
from tarn.read.snapshot import Snapshot

__all__ = ["NAME", "RetainedHistory", "history_sample", "read", "usage_sample", "written"]

NAME = "history"
SCHEMA = 1
# Most unpacked bytes that are read; `written` makes far fewer.
LARGEST = 64 << 20


@attrs.frozen
class RetainedHistory:
    """Everything remembered, as one value."""

    history: FleetHistory = attrs.field(factory=FleetHistory)
    usage: FleetUsage = attrs.field(factory=FleetUsage)
    since: Mapping[Key, float] = attrs.field(factory=dict, hash=False)
    """Key of each active alert to the wall second at which it began."""
    as_read: Mapping[str, CounterSet] = attrs.field(factory=dict, hash=False)
    """Id of each instance that has a process to its counters as Triton gives them, which the next
    master will find there."""
    trouble: str = ""
    """Why it is not saved, or what of the earlier master's history was lost; mostly empty."""

    def looked(self, snapshot: Snapshot, gpus: int = 0) -> "RetainedHistory":
        """Return it with one more snapshot; only the alerts of a stale one count.

        *gpus* is the number of GPUs of each instance.
        """
        since = onsets(self.since, snapshot)
        if snapshot.stale:
            return attrs.evolve(self, since=since)
        seen = history_sample(snapshot)
        # The counters of an earlier master are sums over models. If a sum fell, a model was
        # unloaded while no master ran, and the growth of the others is not known.
        known = {
            id_: one
            for id_, one in self.history.counted.items()
            if (now := seen.counted.get(id_)) is None or now.goes_on_from(one)
        }
        said = {
            id_: (one.as_read or one.counted) if (one := snapshot.readings.get(id_)) else None
            for id_ in seen.counted
        }
        history = attrs.evolve(self.history, counted=known).looked(seen)
        usage = attrs.evolve(self.usage, instances=known)
        return attrs.evolve(
            self,
            history=history,
            usage=usage.looked(usage_sample(snapshot, seen, gpus)),
            since=since,
            as_read=newest_known(self.as_read, said),
        )


def history_sample(snapshot: Snapshot) -> HistorySample:
    """Return the sizes, load and counters of *snapshot*."""
    running = [i.id for i in snapshot.instances if i.state in PLACED]
    readings = [snapshot.readings.get(id_) for id_ in running]
    loads = [load for one in readings if one and (load := one.load) is not None]
    queues = [queue for one in readings if one and (queue := one.known("pending")) is not None]
    return HistorySample(
        at=snapshot.at,
        desired=snapshot.desired,
        ready=snapshot.ready,
        running=len(running),
        load=sum(loads) / len(loads) if loads else None,
        queue=sum(queues) if queues or not running else None,
        counted={
            id_: one.counted if one else None for id_, one in zip(running, readings, strict=True)
        },
    )


def usage_sample(snapshot: Snapshot, seen: HistorySample, gpus: int) -> UsageSample:
    """Return the usage in *snapshot*, whose `history_sample` is *seen*."""
    ready = Counter(
        name
        for instance in snapshot.instances
        if instance.state in PLACED
        for name, state, _reason in instance.models
        if state == "READY"
    )
    models = {name: one.counted for name, one in snapshot.models.newest.items()}
    fresh = frozenset(i.id for i in snapshot.instances if not i.adopted)
    return UsageSample(snapshot.at, gpus, seen.counted, ready, models, fresh)


def written(past: RetainedHistory) -> bytes:
    """Return *past* as the content of a file."""
    lines = (json.dumps(line, allow_nan=False, separators=(",", ":")) for line in _lines(past))
    return gzip.compress(b"".join(f"{line}\n".encode() for line in lines), 6)


def _lines(past: RetainedHistory) -> Iterator[list[object]]:
    history, usage = past.history, past.usage
    yield ["tarn history", SCHEMA]
    yield ["looked", history.at, usage.at, sorted(usage.running)]
    yield from (["wrong", *key, since] for key, since in past.since.items())
    yield from (["seen", id_, *_numbers(one)] for id_, one in past.as_read.items())
    for grain in history.grains:
        for row in grain.rows:
            yield ["row", grain.step_s, *row]
        if grain.open is not None:
            yield ["open", grain.step_s, *_plain(grain.open)]
    for slots in usage.slots:
        for at, slot in slots.slots.items():
            for (kind, name), spent in slot.items():
                yield ["spent", slots.slot_s, at, kind, name, *attrs.astuple(spent)]


def _plain(step: HistoryStep) -> Iterator[object]:
    yield from (step.at, step.desired, step.ready, step.running)
    yield from (*attrs.astuple(step.load), *attrs.astuple(step.queue))
    if step.growth is not None:
        yield from (step.growth.seconds, *_numbers(step.growth.counted))


def _numbers(counted: CounterSet) -> tuple[float, float, float]:
    """Return the counters that the history needs."""
    return counted.completed, counted.failed, counted.request_us


def read(data: bytes) -> RetainedHistory:
    """Return the history in *data*, which `written` made; unknown kinds of lines are skipped.

    Raises:
        ValueError: *data* is damaged, or not a history.
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
    """Makes a history of lines."""

    def __init__(self) -> None:
        self._looked: list[Any] = [None, None, []]
        self._since: dict[tuple[str, str, str], float] = {}
        self._counted: dict[str, CounterSet] = {}
        self._rows: dict[int, list[Row]] = {}
        self._open: dict[int, HistoryStep] = {}
        self._slots: dict[int, dict[float, dict[tuple[str, str], ResourceUse]]] = {}
        self._kinds: dict[str, Callable[..., None]] = {
            "looked": self._take_looked,
            "wrong": self._take_wrong,
            "seen": self._take_counters,
            "row": self._take_row,
            "open": self._take_open,
            "spent": self._take_spent,
        }

    def fold(self, lines: Iterable[list[Any]]) -> RetainedHistory:
        """Return the history in *lines*."""
        for kind, *said in lines:
            if kind in self._kinds:
                self._kinds[kind](*said)
        seen_at, used_at, running = self._looked
        history = FleetHistory()
        grains = tuple(self._grain(grain) for grain in history.grains)
        slots = tuple(attrs.evolve(one, slots=self._slots.get(one.slot_s, {})) for one in SLOTS)
        return RetainedHistory(
            FleetHistory(grains, seen_at, self._counted),
            FleetUsage(slots, used_at, self._counted, frozenset(running)),
            self._since,
            self._counted,
        )

    def _grain(self, grain: Grain) -> Grain:
        rows = tuple(self._rows.get(grain.step_s, ())[-grain.keep :])
        return attrs.evolve(grain, rows=rows, open=self._open.get(grain.step_s))

    def _take_looked(self, seen_at: object, used_at: object, running: list[Any]) -> None:
        self._looked = [_number(seen_at), _number(used_at), [str(id_) for id_ in running]]

    def _take_wrong(self, code: str, subject: str, detail: str, since: object) -> None:
        self._since[str(code), str(subject), str(detail)] = _known(since)

    def _take_counters(self, id_: str, *said: object) -> None:
        self._counted[str(id_)] = CounterSet(*map(_known, said))

    def _take_row(self, step_s: int, at: object, *said: object) -> None:
        if len(said) != len(COLUMNS) - 1:
            raise ValueError(f"a row has {len(said) + 1} numbers")
        self._rows.setdefault(int(step_s), []).append((_known(at), *map(_number, said)))

    def _take_open(self, step_s: int, at: object, *said: Any) -> None:
        desired, ready, running, load, loads, queue, queues, *grown = said
        growth = Growth(_known(grown[0]), CounterSet(*map(_known, grown[1:]))) if grown else None
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
