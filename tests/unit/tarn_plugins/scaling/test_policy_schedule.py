"""The policy `schedule`: bounds that go by the calendar, around the wish of another policy."""

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import attrs
import pytest
from hypothesis import strategies as st
from unit.tarn_plugins.scaling.views import view

from tarn import plugins
from tarn.domain import Choice, FleetView, Limits, Wish
from tarn.plain import structure
from tarn.testing.strategies import for_any
from tarn_plugins.scaling.schedule import SchedulePolicy, ScheduleSettings, Window

pytest.importorskip("cronsim", reason="pip install 'tarn-orchestrator[schedule]'")
PARIS = ZoneInfo("Europe/Paris")
OFFICE = Window("0 8 * * mon-fri", 10 * 3600.0, min=3, max=8)
NIGHT = Window("30 2 * * *", 3600.0, min=3)


@attrs.define
class Inner:
    """Wants what it is told, and keeps the limits that it was shown."""

    wish: Wish = attrs.field(factory=lambda: Wish(1, "so it was told"))
    shown: list[Limits] = attrs.field(factory=list)

    def wanted(self, fleet: FleetView) -> Wish:
        self.shown.append(fleet.limits)
        return self.wish


def policy(*windows: Window, inner: Inner | None = None, most: int | None = None) -> SchedulePolicy:
    """Return a schedule in Paris."""
    settings = ScheduleSettings(windows or (OFFICE,), "Europe/Paris", most)
    return SchedulePolicy(settings, inner or Inner())


def paris(text: str, fold: int = 0) -> float:
    """Return Unix seconds of a time on the clocks of Paris."""
    return datetime.fromisoformat(text).replace(tzinfo=PARIS, fold=fold).timestamp()


def at(seconds: float, desired: int = 1) -> FleetView:
    """Return a fleet of *desired* at a time."""
    return attrs.evolve(view(desired, limits=Limits(0, 20)), at=seconds)


def wanted(some: SchedulePolicy, seconds: float) -> int | None:
    """Return the size that it wants at a time."""
    return some.wanted(at(seconds)).replicas


# -- bounds


def test_within_a_window_its_least_size_is_kept() -> None:
    """With the inner policy's reason, and until when."""
    wish = policy().wanted(at(paris("2026-06-01 08:30")))
    assert wish == Wish(
        3,
        "so it was told; the schedule wants at least 3 replicas until 18:00 (Europe/Paris)",
    )


def test_a_window_begins_on_time_and_is_over_on_time() -> None:
    """Monday from eight to six; not on Saturday."""
    some = policy()
    times = ["07:59", "08:00", "17:59", "18:00"]
    assert [wanted(some, paris(f"2026-06-01 {t}")) for t in times] == [1, 3, 3, 1]
    assert wanted(some, paris("2026-06-06 12:00")) == 1


def test_a_wish_within_the_bounds_is_left_as_it_is() -> None:
    """Reason and haste are those of the inner policy."""
    wish = Wish(5, "a crowd", urgent=True)
    assert policy(inner=Inner(wish)).wanted(at(paris("2026-06-01 08:30"))) is wish


def test_a_window_has_its_own_greatest_size() -> None:
    """Four outside, eight within; `replicas.max` bounds both, in the guard."""
    many = Inner(Wish(9, "a crowd"))
    some = policy(inner=many, most=4)
    outside = some.wanted(at(paris("2026-06-01 19:00")))
    assert outside == Wish(4, "a crowd; the schedule wants at most 4 replicas")
    assert wanted(some, paris("2026-06-01 12:00")) == 8
    assert wanted(policy(inner=many), paris("2026-06-01 19:00")) == 9


def test_of_windows_that_overlap_the_greatest_bounds_count() -> None:
    """Whatever their order; the reason tells when the first of them ends."""
    noon = Window("0 12 * * *", 3600.0, min=5)
    for some in (policy(OFFICE, noon), policy(noon, OFFICE)):
        wish = some.wanted(at(paris("2026-06-01 12:30")))
        assert wish.replicas == 5
        assert wish.reason.endswith("at least 5 replicas until 13:00 (Europe/Paris)")
        assert wanted(some, paris("2026-06-01 13:30")) == 3


def test_no_opinion_is_the_present_size_within_the_bounds() -> None:
    """What is not known of the load does not undo what is known of the calendar."""
    unsure = Inner(Wish(None, "the load is unknown"))
    some = policy(inner=unsure, most=4)
    noon = paris("2026-06-01 12:00")
    assert some.wanted(at(noon, desired=1)).replicas == 3
    assert some.wanted(at(noon, desired=5)).replicas is None
    assert some.wanted(at(paris("2026-06-01 19:00"), desired=5)).replicas == 4


def test_the_inner_policy_sees_the_bounds_as_its_limits() -> None:
    """It need not wish for sleep where three are the least."""
    inner = Inner()
    some = policy(inner=inner, most=4)
    for time in ("12:00", "19:00"):
        some.wanted(at(paris(f"2026-06-01 {time}")))
    assert [(limits.min, limits.max) for limits in inner.shown] == [(3, 8), (0, 4)]


def test_an_end_on_another_day_names_the_day() -> None:
    """Nobody takes tomorrow's six for today's."""
    long = Window("0 22 * * *", 10 * 3600.0, min=2)
    wish = policy(long).wanted(at(paris("2026-06-01 23:00")))
    assert wish.reason.endswith("until Tue 02 Jun 08:00 (Europe/Paris)")


# -- the two nights of the year


def test_in_spring_a_time_that_is_skipped_is_taken_when_the_clock_goes_on() -> None:
    """On 29 March there is no 02:30: at 03:00 it begins, and lasts its hour."""
    some = policy(NIGHT)
    assert wanted(some, paris("2026-03-29 01:59")) == 1
    assert wanted(some, paris("2026-03-29 03:00")) == 3
    assert wanted(some, paris("2026-03-29 03:59")) == 3
    assert wanted(some, paris("2026-03-29 04:00")) == 1


def test_in_autumn_a_time_that_comes_twice_is_taken_once() -> None:
    """On 25 October 02:30 comes at 00:30 UTC and again at 01:30: the first counts."""
    some = policy(NIGHT)
    assert wanted(some, paris("2026-10-25 02:29")) == 1
    assert wanted(some, paris("2026-10-25 02:30")) == 3
    assert wanted(some, paris("2026-10-25 02:15", fold=1)) == 3
    assert wanted(some, paris("2026-10-25 02:29", fold=1)) == 3
    assert wanted(some, paris("2026-10-25 02:30", fold=1)) == 1
    assert wanted(some, paris("2026-10-25 03:30")) == 1


def test_a_window_lasts_in_real_time() -> None:
    """Ten hours from ten in the evening end at nine where the night has an hour less."""
    some = policy(Window("0 22 * * *", 10 * 3600.0, min=3))
    assert wanted(some, paris("2026-03-29 08:59")) == 3
    assert wanted(some, paris("2026-03-29 09:00")) == 1
    assert wanted(some, paris("2026-10-25 06:59")) == 3
    assert wanted(some, paris("2026-10-25 07:00")) == 1
    assert wanted(some, paris("2026-06-02 07:59")) == 3
    assert wanted(some, paris("2026-06-02 08:00")) == 1


def begins(hour: int, minute: int, day: datetime) -> float:
    """Return when a time of *day* comes, by the rule in words: skipped ones when time goes on."""
    wall = day.replace(hour=hour, minute=minute, tzinfo=PARIS, fold=0)
    true = wall.astimezone(UTC).astimezone(PARIS)
    if true.replace(tzinfo=None) != wall.replace(tzinfo=None):  # in the gap of spring
        return day.replace(hour=3, tzinfo=PARIS).timestamp()
    return wall.timestamp()


@for_any(
    examples=150,
    day=st.sampled_from([datetime(2026, 3, 29), datetime(2026, 10, 25), datetime(2026, 6, 1)]),  # noqa: DTZ001
    hour=st.integers(0, 23),
    minute=st.integers(0, 59),
    lasts=st.integers(1, 20 * 60),
    later=st.integers(-24 * 60, 36 * 60),
)
def test_a_window_holds_exactly_from_each_of_its_times_on(
    day: datetime, hour: int, minute: int, lasts: int, later: int
) -> None:
    """Every minute around the two nights, against the rule in words."""
    now = day.replace(tzinfo=PARIS).timestamp() + later * 60
    days = (day + timedelta(days=n) for n in range(-3, 4))
    starts = [begins(hour, minute, each) for each in days]
    holds = any(start <= now < start + lasts * 60 for start in starts)
    some = policy(Window(f"{minute} {hour} * * *", lasts * 60.0, min=3))
    assert (wanted(some, now) == 3) is holds


@for_any(size=st.none() | st.integers(0, 30), desired=st.integers(0, 30), low=st.integers(0, 9))
def test_its_own_answer_satisfies_it(size: int | None, desired: int, low: int) -> None:
    """The wish lies within the bounds, and is the same once it is the size."""
    some = policy(attrs.evolve(OFFICE, min=low, max=9), inner=Inner(Wish(size, "x")))
    now = paris("2026-06-01 12:00")
    first = some.wanted(at(now, desired)).replicas
    first = desired if first is None else first
    assert low <= first <= 9
    again = some.wanted(at(now, first)).replicas
    assert again in (first, None)


# -- settings


def problems(**options: Any) -> list[str]:
    """Return what is wrong with the options, as a user reads it."""
    return [p.found for p in structure(ScheduleSettings, options, "scaling.options")[1]]


def test_every_wrong_option_is_named_at_once() -> None:
    """Where, what was found, and what would be right."""
    windows = [
        {"cron": "0 25 * * *", "for": 10, "min": -1},
        {"cron": "0 8 * *", "for": "1h", "max": 3},
        {"cron": "0 8 * * *", "for": "1h"},
        {"cron": "0 8 * * *", "for": "1h", "min": 3, "max": 2},
    ]
    cron = "must be five fields: minute, hour, day of month, month, day of week, such as"
    zone = "must be a zone that this machine knows, such as Europe/Paris or UTC"
    at = "scaling.options.windows"
    assert problems(windows=windows, zone="Europe/Pariss", max="4") == [
        f"{at}[0].cron = '0 25 * * *': {cron} '0 8 * * mon-fri'",
        f"{at}[0].for = 10: a duration needs its unit",
        f"{at}[0].min = -1: must be at least 0",
        f"{at}[1].cron = '0 8 * *': {cron} '0 8 * * mon-fri'",
        f"{at}[2]: it has neither min nor max, so it changes nothing",
        f"{at}[3]: max = 2 is below min = 3; raise it or lower min",
        f"scaling.options.zone = 'Europe/Pariss': {zone}",
        "scaling.options.max = '4': a whole number is needed",
    ]  # fmt: skip
    assert "windows" in problems()[0]


def test_seconds_and_zones_with_paths_are_refused() -> None:
    """A sixth field would be seconds; a zone is no file of ours."""
    six = [{"cron": "0 0 8 * * *", "for": "1h", "min": 1}]
    assert len(problems(windows=six, zone="../etc/passwd")) == 2


OFFERED = plugins.load()
WINDOW = {"cron": "0 8 * * mon-fri", "for": "10h", "min": 3}


def found(**inner: Any) -> list[str]:
    """Return what the plugins find wrong with a schedule around *inner*."""
    factory = OFFERED.choose("scaling", "schedule", "scaling.use")
    options = {"windows": [WINDOW], "inner": inner}
    return [p.found for p in OFFERED.problems(factory, options, "scaling.options")]


def test_the_inner_policy_is_checked_like_any() -> None:
    """Its name, its options and the signals that it reads: each with its path."""
    assert found(use="target", options={"target": 12, "signal": "pending"}) == []
    (name,) = found(use="tarrget")
    assert name.startswith("scaling.options.inner.use = 'tarrget': no plugin offers it")
    (option,) = found(use="target", options={"tolerance": 2})
    assert option.startswith("scaling.options.inner.options.tolerance = 2: must be a fraction")
    (signal,) = found(use="target", options={"signal": "pendingg"})
    assert signal == "scaling.options.inner.options: there is no signal 'pendingg'"


def test_what_the_inner_policy_reads_is_read() -> None:
    """Through schedules within schedules, too."""
    innermost = {"use": "target", "options": {"signal": "nv_cache_num_misses", "target": 3}}
    middle = {"use": "schedule", "options": {"windows": [WINDOW], "inner": innermost}}
    assert found(**middle) == []
    factory = OFFERED.choose("scaling", "schedule", "scaling.use")
    options = {"windows": [WINDOW], "inner": middle}
    settings = OFFERED.settings(factory, options, "scaling.options")
    assert "nv_cache_num_misses" in OFFERED.needs(factory, settings).names


def test_the_default_inner_policy_is_target() -> None:
    """The one that follows a load that comes and goes."""
    assert ScheduleSettings((OFFICE,)).inner == Choice("target")
