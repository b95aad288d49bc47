"""What plugins make of samples, and what is kept for them."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarn.domain import FleetView, Instance, InstanceState, Known, Limits, Reading, Sample, Unknown
from tarn.domain.plugin_signals import PluginSignals
from tarn.domain.signals import KEEP, Samples, Signals, SignalSelection
from tarn.testing.strategies import histories

READY = Instance("fleet-0001", "hash", InstanceState.READY)
OTHER = Instance("fleet-0002", "hash", InstanceState.READY)


def said(value: float | Unknown, at_s: float, id_: str = "fleet-0001") -> dict[str, Reading]:
    sample: Sample[float] = value if isinstance(value, Unknown) else Known(value)
    metrics = {"vllm:waiting": sample, "requests_total": Known(1.0)}
    return {id_: Reading(id_, at_s, metrics=metrics)}


def look(signals: Signals, now_s: float, *readings: dict[str, Reading]) -> Signals:
    every = {id_: one for each in readings for id_, one in each.items()}
    instances = [one for one in (READY, OTHER) if one.id in every] or [READY]
    return signals.looked(instances, every, now_s, oldest_s=7.0)


BY_NAME = Signals(kept=SignalSelection(metrics={"vllm:waiting": "vllm:waiting", "metric/x": "x"}))


def test_a_metric_of_triton_is_its_sum_over_the_fleet() -> None:
    """Under the name that the policy asks for."""
    seen = look(BY_NAME, 10.0, said(2.0, 10.0), said(3.0, 9.5, "fleet-0002"))
    assert seen.history["vllm:waiting"] == ((10.0, Known(5.0, 0.5)),)


def test_a_metric_that_is_not_there_is_unknown_and_never_zero() -> None:
    """Whether nobody has it, one does not, or nobody is ready."""
    seen = look(
        BY_NAME, 10.0, said(2.0, 10.0), said(Unknown("no vllm:waiting"), 10.0, "fleet-0002")
    )
    first = "1 of 2 instances did not say (fleet-0002: no vllm:waiting)"
    assert seen.history["vllm:waiting"][-1][1] == Unknown(first)
    assert isinstance(seen.history["metric/x"][-1][1], Unknown)
    nobody = BY_NAME.looked((), {}, 10.0, oldest_s=7.0)
    assert nobody.history["vllm:waiting"][-1][1] == Unknown("no instance is ready")


def test_samples_are_kept_only_for_who_reads_them() -> None:
    """Ten thousand instances would else keep what nobody looks at."""
    assert look(Signals(), 10.0, said(2.0, 10.0)).samples == {}
    assert look(BY_NAME, 10.0, said(2.0, 10.0)).samples == {}


def test_samples_go_back_as_far_as_was_asked() -> None:
    """One row for each scrape, oldest first; a scrape that is seen twice is one row."""
    seen = Signals(kept=SignalSelection(samples_s=3.0))
    for second in range(10, 20):
        reading = said(float(second), float(second))
        seen = look(seen, float(second), reading)
        newer = attrs.evolve(reading["fleet-0001"], cold="not yet")
        seen = look(seen, second + 0.5, {"fleet-0001": newer})
    rows = seen.samples["fleet-0001"]
    assert [at_s for at_s, _ in rows] == [16.0, 17.0, 18.0, 19.0]
    assert rows[-1][1]["vllm:waiting"] == Known(19.0)


def test_an_instance_without_news_has_no_samples() -> None:
    """Never scraped, or so long ago that it says nothing of now."""
    kept = Signals(kept=SignalSelection(samples_s=3.0))
    assert look(kept, 10.0).samples == {"fleet-0001": ()}
    old = said(1.0, 10.0)
    assert look(look(kept, 10.0, old), 18.0, old).samples == {"fleet-0001": ()}


def test_the_samples_of_what_is_gone_are_forgotten() -> None:
    """Ids are never used again."""
    seen = look(Signals(kept=SignalSelection(samples_s=9.0)), 10.0, said(1.0, 10.0))
    assert set(look(seen, 11.0, said(1.0, 11.0, "fleet-0002")).samples) == {"fleet-0002"}


def ask(answer: object) -> Sample[float]:
    def read(samples: Samples, window_s: float) -> Sample[float]:
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[return-value]

    return PluginSignals({"mine": read}).looked({}, 1.0).history["mine"][-1][1]


@pytest.mark.parametrize("answer", [Known(1.5), Known(0), Unknown("no GPU")])
def test_what_makes_sense_is_passed_on(answer: object) -> None:
    """As it is."""
    assert ask(answer) == answer


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (ValueError("no"), "the signal mine raised ValueError: no"),
        (3.0, "the signal mine answered float, neither Known nor Unknown"),
        (None, "the signal mine answered NoneType, neither Known nor Unknown"),
        (Known(float("nan")), "the signal mine says nan, which is not a finite number"),
        (Known("3"), "the signal mine says '3', which is not a finite number"),
        (Known(True), "the signal mine says True, which is not a finite number"),
    ],
)
def test_nonsense_is_unknown_with_what_it_was(answer: object, reason: str) -> None:
    """A plugin is foreign code: no number of its makes a size."""
    assert ask(answer) == Unknown(reason)


def test_a_history_is_bounded_and_shown_beside_the_views_own() -> None:
    """As those that are always there."""
    signals = PluginSignals({"mine": lambda _samples, _window_s: Known(1.0)})
    for second in range(KEEP + 3):
        signals = signals.looked({}, float(second))
    assert len(signals.history["mine"]) == KEEP
    view = FleetView(1.0, 1, Limits(0, 2), signals={"pending": ()})
    assert set(signals.shown(view).signals) == {"pending", "mine"}
    assert set(view.signals) == {"pending"}


def test_each_is_named_before_it_is_asked() -> None:
    """So that one that hangs can be named."""
    told: list[str] = []

    def read(samples: Samples, window_s: float) -> Sample[float]:
        return Known(float(len(told)))

    seen = PluginSignals({"a": read, "b": read}).looked({}, 1.0, told.append)
    assert told == ["a", "b"]
    assert [rows[-1][1] for rows in seen.history.values()] == [Known(1.0), Known(2.0)]


@given(histories(("pending", "executing")), st.floats(1.0, 60.0))
def test_looking_changes_nothing_of_what_was_seen(samples: Samples, window_s: float) -> None:
    """Same samples, same answer: a replay sees what the master saw."""

    def read(given_: Samples, _window_s: float) -> Sample[float]:
        return Known(float(sum(len(rows) for rows in given_.values())))

    signals = PluginSignals({"mine": read}, window_s)
    assert signals.looked(samples, 1.0).history == signals.looked(samples, 1.0).history
    assert signals.history == {}
