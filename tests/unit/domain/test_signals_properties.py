"""Laws of the signals: whatever instances say, no sum is too small and none is made up."""

import math

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

from tarn.domain import Instance, InstanceState, Known, Reading, Sample, Unknown
from tarn.domain.counters import COUNTERS
from tarn.domain.signals import GAUGES, KEEP, SIGNALS, Signals

NAMES = (*GAUGES, *COUNTERS)
IDS = ("w-0001", "w-0002", "w-0003")


@st.composite
def said(draw: st.DrawFn) -> dict[str, Sample[float]]:
    """What one instance says in one scrape: any part may be missing."""
    number = st.one_of(st.floats(0, 1e6), st.integers(0, 100).map(float))
    sample = st.one_of(number.map(Known), st.just(Unknown("timed out")))
    return draw(st.dictionaries(st.sampled_from(NAMES), sample))


looks = st.lists(st.dictionaries(st.sampled_from(IDS), said()), min_size=1, max_size=6)


def looked(drawn: list[dict[str, dict[str, Sample[float]]]]) -> Signals:
    """Look once a second at three ready instances."""
    signals = Signals()
    instances = [Instance(id_, "hash", InstanceState.READY) for id_ in IDS]
    readings: dict[str, Reading] = {}
    for second, told in enumerate(drawn):
        now_s = 100.0 + second
        readings |= {id_: Reading(id_, now_s, metrics=metrics) for id_, metrics in told.items()}
        signals = signals.looked(instances, readings, now_s, oldest_s=7.0)
    return signals


@settings(max_examples=50, deadline=None)
@given(looks)
def test_every_sample_is_a_finite_number_from_zero_or_has_a_reason(
    drawn: list[dict[str, dict[str, Sample[float]]]],
) -> None:
    """Durations alone may be strange, where a Triton's own counters are."""
    signals = looked(drawn)
    assert set(signals.history) == set(SIGNALS)
    for name, rows in signals.history.items():
        assert len(rows) == min(len(drawn), KEEP)
        for _, sample in rows:
            if isinstance(sample, Unknown):
                assert sample.reason.strip()
                continue
            assert math.isfinite(sample.value)
            assert sample.age_s >= 0
            assert sample.value >= 0, name


@settings(max_examples=50, deadline=None)
@given(looks)
def test_a_sum_is_known_only_when_every_instance_said_its_part(
    drawn: list[dict[str, dict[str, Sample[float]]]],
) -> None:
    """Too small a sum stops instances that are needed."""
    newest = looked(drawn).history["pending"][-1][1]
    last = {id_: metrics for told in drawn for id_, metrics in told.items()}
    parts = [last.get(id_, {}).get("pending", Unknown("never")) for id_ in IDS]
    if isinstance(newest, Known):
        known = [part.value for part in parts if isinstance(part, Known)]
        assert len(known) == len(IDS)
        assert newest.value == sum(known)
    else:
        assert "did not say" in newest.reason


@settings(max_examples=50, deadline=None)
@given(looks, st.integers(0, 2))
def test_a_silent_instance_hides_nothing_by_zero(
    drawn: list[dict[str, dict[str, Sample[float]]]], place: int
) -> None:
    """Whatever the others say: one without a word makes every signal unknown."""
    silent = IDS[place]
    without = [{id_: m for id_, m in told.items() if id_ != silent} for told in drawn]
    for rows in looked(without).history.values():
        assert all(isinstance(sample, Unknown) for _, sample in rows)


@attrs.define
class Server:
    """One Triton with *slots* places, and requests of *each_s* seconds; counts when they end."""

    slots: int
    each_s: float
    queue: list[float] = attrs.field(factory=list)
    ends: list[tuple[float, float]] = attrs.field(factory=list)
    ended: int = 0
    queue_s: float = 0.0

    def step(self, now_s: float, arrivals: int) -> None:
        for end_s, waited_s in sorted(self.ends):
            if end_s <= now_s:
                self.ends.remove((end_s, waited_s))
                self.ended += 1
                self.queue_s += waited_s
        self.queue += [now_s] * arrivals
        while self.queue and len(self.ends) < self.slots:
            came_s = self.queue.pop(0)
            self.ends.append((now_s + self.each_s, now_s - came_s))

    def reading(self, now_s: float) -> Reading:
        counted = {
            "pending": float(len(self.queue)),
            "executing": float(len(self.ends)),
            "requests_total": float(self.ended),
            "failures_total": 0.0,
            "queue_us_total": self.queue_s * 1e6,
            "request_us_total": (self.queue_s + self.ended * self.each_s) * 1e6,
        }
        metrics = {name: Known(value) for name, value in counted.items()}
        return Reading("w-0001", now_s, metrics=metrics)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 4),
    st.sampled_from([0.1, 0.3, 0.9]),
    st.floats(0.5, 3.0),
    st.integers(0, 2**16),
)
def test_offered_load_is_the_work_that_comes_however_much_is_served(
    slots: int, each_s: float, load: float, offset: int
) -> None:
    """Overloaded or not: its mean is arrivals times their length, which is what a size needs."""
    server, signals = Server(slots, each_s), Signals()
    instances = (Instance("w-0001", "hash", InstanceState.READY),)
    arrived, owed, rows = 0, (offset % 97) / 97, []
    for tick in range(400):  # tenths of a second
        owed += load / each_s / 10
        arrivals, owed = int(owed), owed - int(owed)
        now_s = 100.0 + tick / 10
        server.step(now_s, arrivals)
        arrived += arrivals
        if tick % 10 == 0:
            readings = {"w-0001": server.reading(now_s)}
            signals = signals.looked(instances, readings, now_s, oldest_s=7.0)
            rows.append(signals.history["offered_load"][-1][1])
    known = [row.value for row in rows[10:] if isinstance(row, Known)]
    assert len(known) == len(rows) - 10
    assert math.isclose(sum(known) / len(known), arrived / 40 * each_s, rel_tol=0.15)
