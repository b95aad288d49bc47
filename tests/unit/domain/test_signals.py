"""From readings to what a policy sees."""

import attrs
import pytest

from tarn.domain import FleetView, Instance, InstanceState, Known, Limits, Reading, Sample, Unknown
from tarn.domain.signals import KEEP, SIGNALS, Signals

NOT_SAID = Unknown("timed out")
COUNTERS = ("requests_total", "failures_total", "queue_us_total", "request_us_total")


def ready(number: int, **changes: object) -> Instance:
    plain = Instance(f"fleet-{number:04d}", "hash", InstanceState.READY)
    return attrs.evolve(plain, **changes)  # type: ignore[arg-type]


def reading(number: int, at_s: float, *, age_s: float = 0.0, **metrics: float | Unknown) -> Reading:
    """What one instance said; counters that are not given stand at zero."""
    given = dict.fromkeys((*COUNTERS, "pending", "executing", "gpu_utilization"), 0.0) | metrics
    read: dict[str, Sample[float]] = {
        name: value if isinstance(value, Unknown) else Known(value, age_s)
        for name, value in given.items()
    }
    return Reading(f"fleet-{number:04d}", at_s, metrics=read)


def look(
    signals: Signals, now_s: float, *readings: Reading, instances: tuple[Instance, ...] = ()
) -> Signals:
    said = {each.instance_id: each for each in readings}
    ones = instances or tuple(Instance(id_, "hash", InstanceState.READY) for id_ in said)
    return signals.looked(ones, said, now_s, oldest_s=7.0)


def newest(signals: Signals, name: str) -> Sample[float]:
    at_s, sample = signals.history[name][-1]
    assert at_s >= 0
    return sample


def test_gauges_are_added_over_the_fleet() -> None:
    """And utilization is a mean: two busy GPUs are not twice as busy."""
    seen = look(
        Signals(),
        10.0,
        reading(1, 10.0, pending=3.0, executing=1.0, gpu_utilization=0.9),
        reading(2, 10.0, pending=4.0, executing=2.0, gpu_utilization=0.5),
    )
    assert newest(seen, "pending") == Known(7.0)
    assert newest(seen, "executing") == Known(3.0)
    assert newest(seen, "gpu_utilization") == Known(0.7)


def test_one_silent_instance_makes_the_whole_unknown() -> None:
    """Without its part the sum would be too small, and stop what is needed."""
    silent = reading(2, 10.0, pending=NOT_SAID)
    seen = look(Signals(), 10.0, reading(1, 10.0, pending=3.0), silent)
    said = newest(seen, "pending")
    assert said == Unknown("1 of 2 instances did not say (fleet-0002: timed out)")
    assert newest(seen, "executing") == Known(0.0)


def test_a_suspect_instance_counts_and_what_does_not_serve_does_not() -> None:
    """The one has work and cannot say; the others have nothing to say."""
    suspect = ready(1, suspect="silent")
    others = (ready(2, state=InstanceState.STARTING), ready(3, state=InstanceState.DRAINING))
    seen = look(Signals(), 5.0, reading(1, 5.0, pending=NOT_SAID), instances=(suspect, *others))
    assert isinstance(newest(seen, "pending"), Unknown)
    served = look(Signals(), 5.0, reading(1, 5.0, pending=2.0), instances=(suspect, *others))
    assert newest(served, "pending") == Known(2.0)


def test_without_a_ready_instance_everything_is_unknown() -> None:
    """An empty fleet has no load that anybody could have measured."""
    seen = look(Signals(), 1.0)
    assert {name: newest(seen, name) for name in SIGNALS} == dict.fromkeys(
        SIGNALS, Unknown("no instance is ready")
    )


def test_an_instance_that_was_never_scraped_is_unknown() -> None:
    """It was ready a moment ago; its first scrape is on its way."""
    seen = look(Signals(), 1.0, instances=(ready(1),))
    assert newest(seen, "pending") == Unknown(
        "1 of 1 instances did not say (fleet-0001: not scraped yet)"
    )


def test_rates_are_per_second_and_durations_per_request() -> None:
    """Over the span between two scrapes, whatever the interval is."""
    first = look(Signals(), 10.0, reading(1, 10.0), reading(2, 10.0))
    assert isinstance(newest(first, "requests_per_s"), Unknown)
    second = look(
        first,
        12.0,
        reading(1, 12.0, requests_total=30.0, queue_us_total=6_000.0, request_us_total=60_000.0),
        reading(2, 12.0, requests_total=10.0, queue_us_total=2_000.0, failures_total=4.0),
    )
    assert newest(second, "requests_per_s") == Known(20.0)
    assert newest(second, "failures_per_s") == Known(2.0)
    assert newest(second, "queue_time") == Known(pytest.approx(200e-6))
    assert newest(second, "request_time") == Known(pytest.approx(1500e-6))


def test_counters_that_say_25_ms_are_25_ms() -> None:
    """The queue's microseconds, divided by the requests that ended meanwhile."""
    seen = look(Signals(), 10.0, reading(1, 10.0, requests_total=100.0, queue_us_total=9e9))
    now = reading(1, 11.0, requests_total=140.0, queue_us_total=9e9 + 1e6)
    assert newest(look(seen, 11.0, now), "queue_time") == Known(0.025)


def test_no_request_is_a_rate_of_zero_and_no_duration() -> None:
    """Idle is known; how long a request waits then is not."""
    seen = look(look(Signals(), 10.0, reading(1, 10.0)), 11.0, reading(1, 11.0))
    assert newest(seen, "requests_per_s") == Known(0.0)
    assert newest(seen, "queue_time") == Unknown("no request ended since the last sample")


def test_a_counter_that_fell_is_no_negative_rate() -> None:
    """It began again, and what it shows is new."""
    seen = look(Signals(), 10.0, reading(1, 10.0, requests_total=50.0))
    seen = look(seen, 11.0, reading(1, 11.0, requests_total=5.0))
    assert newest(seen, "requests_per_s") == Known(5.0)
    seen = look(seen, 12.0, reading(1, 12.0, requests_total=8.0))
    assert newest(seen, "requests_per_s") == Known(3.0)


def test_a_scrape_that_failed_is_bridged() -> None:
    """The next rate is measured against the last scrape that came."""
    seen = look(Signals(), 10.0, reading(1, 10.0))
    failed = dict.fromkeys((*COUNTERS, "pending"), NOT_SAID)
    seen = look(seen, 11.0, reading(1, 11.0, **failed))
    assert "timed out" in str(newest(seen, "requests_per_s"))
    seen = look(seen, 12.0, reading(1, 12.0, requests_total=8.0))
    assert newest(seen, "requests_per_s") == Known(4.0)


def test_the_same_scrape_seen_twice_keeps_its_rate() -> None:
    """Health is read between two scrapes: nothing new was counted, and nothing is zero."""
    seen = look(Signals(), 10.0, reading(1, 10.0))
    seen = look(seen, 11.0, reading(1, 11.0, requests_total=5.0))
    again = reading(1, 11.4, age_s=0.4, requests_total=5.0)
    seen = look(seen, 11.5, again)
    assert newest(seen, "requests_per_s") == Known(5.0, pytest.approx(0.5))


def test_what_was_read_long_ago_is_unknown() -> None:
    """A scraper that stands still must not look like a calm fleet."""
    stale = reading(1, 10.0, pending=3.0)
    seen = look(Signals(), 17.0, stale)
    assert newest(seen, "pending") == Known(3.0, 7.0)
    assert "last read 8 s ago" in str(newest(look(seen, 18.0, stale), "pending"))


def test_the_history_is_bounded() -> None:
    """The newest are kept, oldest first."""
    seen = Signals()
    for second in range(KEEP + 5):
        seen = look(seen, float(second), reading(1, float(second)))
    assert [at_s for at_s, _ in seen.history["pending"]] == [
        float(second) for second in range(5, KEEP + 5)
    ]


def test_what_is_gone_is_forgotten() -> None:
    """Ids are never used again, so a fleet that changes must not grow in memory."""
    seen = look(Signals(), 1.0, reading(1, 1.0), reading(2, 1.0))
    seen = look(seen, 2.0, reading(2, 2.0))
    assert set(seen._seen) == {"fleet-0002"}


def test_a_mean_is_of_what_is_known_in_the_window_and_ends_with_the_newest() -> None:
    """While the newest is unknown there is none."""
    history = ((1.0, Known(100.0)), (8.0, Known(2.0)), (9.0, NOT_SAID), (10.0, Known(4.0, 0.1)))
    view = FleetView(10.0, 1, Limits(0, 4), signals={"pending": history})
    assert view.mean("pending", 5.0) == Known(3.0, 0.1)
    blind = attrs.evolve(view, signals={"pending": history[:3]})
    assert blind.mean("pending", 5.0) == NOT_SAID
    assert isinstance(view.mean("queue_time", 5.0), Unknown)


def test_what_waits_and_what_executes_are_in_flight() -> None:
    """One number for what an instance has to do; unknown as soon as one part is."""
    first = reading(1, 10.0, pending=3.0, executing=1.5)
    seen = look(Signals(), 10.0, first, reading(2, 10.0, pending=1.0, executing=2.0))
    assert newest(seen, "in_flight") == Known(7.5)
    blind = look(Signals(), 10.0, reading(1, 10.0, pending=3.0, executing=NOT_SAID))
    assert isinstance(newest(blind, "in_flight"), Unknown)


def test_offered_load_is_what_would_execute_if_nothing_waited() -> None:
    """5 ended per second, 20 s of computation in 2 s; the queue grew by 4 per second, 2 s each."""
    seen = look(Signals(), 10.0, reading(1, 10.0))
    ended = {"requests_total": 10.0, "queue_us_total": 5e6, "request_us_total": 25e6}
    seen = look(seen, 12.0, reading(1, 12.0, pending=8.0, **ended))
    assert newest(seen, "offered_load") == Known(pytest.approx(10.0 + 4.0 * 2.0))


def test_offered_load_is_known_while_nothing_ends() -> None:
    """A burst of long requests is measured by those before; cancelled ones are not below zero."""
    seen = look(Signals(), 10.0, reading(1, 10.0))
    ended = {"requests_total": 1.0, "request_us_total": 2e6}
    seen = look(seen, 11.0, reading(1, 11.0, **ended))
    seen = look(seen, 12.0, reading(1, 12.0, pending=20.0, **ended))
    assert newest(seen, "offered_load") == Known(40.0)
    seen = look(seen, 13.0, reading(1, 13.0, **ended))
    assert newest(seen, "offered_load") == Known(0.0)


def test_a_queue_that_nobody_works_off_is_load() -> None:
    """A dead stub with 254 requests: a signal made of completions alone would be 0."""
    seen = look(Signals(), 10.0, reading(1, 10.0), reading(2, 10.0))
    ended = {"requests_total": 10.0, "request_us_total": 1e6}
    for step in range(1, 6):
        now_s = 10.0 + step
        works = {name: value * step for name, value in ended.items()}
        seen = look(
            seen,
            now_s,
            reading(1, now_s, pending=254.0, executing=1.0, **ended),
            reading(2, now_s, pending=8.0, executing=1.0, **works),
        )
    assert newest(seen, "offered_load") == Known(pytest.approx(254.0 + 1.0))
    assert newest(seen, "when_full") == Known(1.0), "that of the one which works"
    seen = look(seen, 16.0, reading(1, 16.0), reading(2, 16.0, **ended))
    assert newest(seen, "pending") == Known(0.0)


def test_a_queue_that_a_dead_process_fails_one_by_one_is_load() -> None:
    """As a killed stub does it, one a second: they end, and nobody is served."""
    seen = look(Signals(), 10.0, reading(1, 10.0, requests_total=9.0, request_us_total=9e5))
    for step in range(1, 6):
        now_s, waits = 10.0 + step, 254.0 - step
        dead = {"requests_total": 19.0, "request_us_total": 19e5, "failures_total": step - 1.0}
        seen = look(seen, now_s, reading(1, now_s, pending=waits, executing=1.0, **dead))
    assert newest(seen, "offered_load") == Known(249.0)


def test_what_waits_for_long_requests_is_no_load_of_its_own_while_some_end() -> None:
    """Requests of 4 s: two looks without an end are nothing unusual."""
    seen = look(Signals(), 10.0, reading(1, 10.0))
    ended = {"requests_total": 1.0, "request_us_total": 4e6}
    for step in range(1, 5):
        now_s = 10.0 + step
        seen = look(seen, now_s, reading(1, now_s, pending=5.0, executing=1.0, **ended))
    assert newest(seen, "offered_load") == Known(0.0)


def test_offered_load_is_what_is_in_flight_until_a_request_has_ended() -> None:
    """Nobody knows yet how long one takes."""
    seen = look(Signals(), 10.0, reading(1, 10.0, pending=3.0, executing=1.0))
    assert newest(seen, "offered_load") == Known(4.0)


def test_an_instance_that_becomes_ready_has_rates_at_once() -> None:
    """A fleet that grows every second would else never know its load."""
    starting = ready(1, state=InstanceState.STARTING)
    seen = look(Signals(), 10.0, reading(1, 10.0), instances=(starting,))
    assert newest(seen, "pending") == Unknown("no instance is ready")
    seen = look(seen, 11.0, reading(1, 11.0, requests_total=5.0), instances=(ready(1),))
    assert newest(seen, "requests_per_s") == Known(5.0)


def worked(seen: Signals, at_s: float, utilization: float, executing: float) -> Signals:
    """One request a second ends, and *executing* seconds of computation in each."""
    counted = {"requests_total": at_s, "request_us_total": at_s * executing * 1e6}
    said = reading(1, at_s, gpu_utilization=utilization, **counted)
    return look(seen, at_s, said)


def test_a_gpu_gauge_that_stands_at_zero_while_requests_end_is_not_believed() -> None:
    """A stuck one would shrink a busy fleet; a CPU model on such a machine is no fault of it."""
    seen = worked(worked(Signals(), 10.0, 0.0, 0.5), 11.0, 0.0, 0.5)
    said = newest(seen, "gpu_utilization")
    assert isinstance(said, Unknown)
    assert "stands at 0 while 1 requests end per second: it is stuck, or" in said.reason
    assert newest(seen, "requests_per_s") == Known(1.0)


@pytest.mark.parametrize(
    ("before", "now", "executing"), [(0.0, 0.02, 0.5), (0.3, 0.0, 0.5), (0.0, 0.0, 0.005)]
)
def test_a_gpu_gauge_that_may_be_right_is_believed(
    before: float, now: float, executing: float
) -> None:
    """It moves, or so little is computed that a whole percent is not reached."""
    seen = worked(worked(Signals(), 10.0, before, executing), 11.0, now, executing)
    assert newest(seen, "gpu_utilization") == Known(now)


def test_an_idle_gpu_is_idle() -> None:
    """No request ended: nothing contradicts it."""
    seen = look(look(Signals(), 10.0, reading(1, 10.0)), 11.0, reading(1, 11.0))
    assert newest(seen, "gpu_utilization") == Known(0.0)


def test_every_signal_has_a_sample_in_every_look() -> None:
    """What the table names is there, whatever was scraped."""
    for seen in (look(Signals(), 1.0), look(Signals(), 1.0, reading(1, 1.0))):
        assert list(seen.history) == list(SIGNALS)


def test_what_a_full_instance_executes_is_the_mean_of_those_that_are_full() -> None:
    """One with a queue, one that is busy without one, and one that idles."""
    numbers = {"f-1": (9.0, 4.0), "f-2": (0.0, 16.0), "f-3": (0.0, 0.0)}
    told = {
        id_: {"pending": Known(waits), "executing": Known(executes)}
        for id_, (waits, executes) in numbers.items()
    }
    seen = Signals()
    fleet = tuple(Instance(id_, "a", InstanceState.READY) for id_ in told)
    readings = {id_: Reading(id_, 1.0, metrics=metrics) for id_, metrics in told.items()}
    seen = seen.looked(fleet, readings, 1.0, 9.0)
    assert newest(seen, "when_full") == Known(4.0)
    calm = {id_: reading for id_, reading in readings.items() if id_ != "f-1"}
    without = seen.looked(fleet[1:], calm, 2.0, 9.0)
    assert newest(without, "when_full") == Unknown("no instance is full")


def cached(number: int, at_s: float, hits: float, misses: float) -> Reading:
    return reading(number, at_s, cache_hits_total=hits, cache_misses_total=misses)


def test_the_share_of_cached_requests_is_that_of_the_fleet() -> None:
    """Many requests weigh more than a few; an instance without a cache weighs nothing."""
    seen = look(Signals(), 10.0, cached(1, 10.0, 5.0, 5.0), cached(2, 10.0, 0.0, 0.0))
    assert isinstance(newest(seen, "cache_hit_share"), Unknown)
    seen = look(seen, 12.0, cached(1, 12.0, 95.0, 15.0), cached(2, 12.0, 0.0, 10.0))
    assert newest(seen, "cache_hits_per_s") == Known(45.0)
    assert newest(seen, "cache_misses_per_s") == Known(10.0)
    assert newest(seen, "cache_hit_share") == Known(90 / 110)
    with_another = look(
        seen, 14.0, cached(1, 14.0, 96.0, 18.0), cached(2, 14.0, 0.0, 10.0), reading(3, 14.0)
    )
    assert newest(with_another, "cache_hit_share") == Known(0.25)


def test_without_a_lookup_or_a_cache_the_share_is_unknown() -> None:
    """Unknown is not zero: a policy must not read a cold cache from it."""
    plain = look(Signals(), 10.0, reading(1, 10.0))
    assert newest(plain, "cache_hit_share") == Unknown("no instance reports a response cache")
    seen = look(look(Signals(), 10.0, cached(1, 10.0, 5.0, 5.0)), 11.0, cached(1, 11.0, 5.0, 5.0))
    assert newest(seen, "cache_hits_per_s") == Known(0.0)
    assert newest(seen, "cache_hit_share") == Unknown("no request ended since the last sample")


def test_a_cache_that_began_again_counts_from_zero() -> None:
    """Its model was loaded again."""
    seen = look(Signals(), 10.0, cached(1, 10.0, 50.0, 50.0))
    seen = look(seen, 11.0, cached(1, 11.0, 1.0, 3.0))
    assert newest(seen, "cache_hit_share") == Known(0.25)


def test_a_failed_scrape_between_two_looks_loses_no_lookup() -> None:
    """The next good scrape is compared with the last good one."""
    seen = look(Signals(), 10.0, cached(1, 10.0, 0.0, 0.0))
    silent = dict.fromkeys((*COUNTERS, "cache_hits_total", "cache_misses_total"), NOT_SAID)
    seen = look(seen, 11.0, reading(1, 11.0, **silent))
    seen = look(seen, 12.0, cached(1, 12.0, 6.0, 2.0))
    assert newest(seen, "cache_hits_per_s") == Known(3.0)


def test_the_time_to_the_first_response_is_a_mean_of_the_fleet() -> None:
    """Where Triton keeps histograms of it; in seconds, as any duration."""

    def one(number: int, at_s: float, count: float, us: float) -> Reading:
        return reading(number, at_s, first_responses_total=count, first_response_us_total=us)

    seen = look(Signals(), 10.0, one(1, 10.0, 0.0, 0.0), one(2, 10.0, 0.0, 0.0))
    seen = look(seen, 11.0, one(1, 11.0, 3.0, 3e6), one(2, 11.0, 1.0, 5e6))
    assert newest(seen, "first_response_time") == Known(2.0)
    assert newest(look(Signals(), 1.0, reading(1, 1.0)), "first_response_time") == Unknown(
        "no instance reports the times of first responses"
    )
