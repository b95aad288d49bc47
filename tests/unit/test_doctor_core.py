"""The core of `tarn doctor`: checks side by side, each with a deadline; pure parts."""

import threading
import time

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarn.clock import SystemClock
from tarn.doctor import CheckState, OfferedCheck, Result, examine, finding, once, totals, worst_last
from tarn.errors import ConfigError, ConfigErrors, LaunchError, PluginError
from tarn.interfaces import Check, CheckResult, Finding, Progress

CLOCK = SystemClock()
LEAK = Finding("WET-1", "roof", "it leaks", "Mend the roof")
DRIP = attrs.evolve(LEAK, found="it drips", fatal=False)


class SlowClock:
    """Moves only when somebody moves it."""

    time_s = 0.0

    def now_s(self) -> float:
        return self.time_s

    def at(self) -> float:
        return self.time_s


def check(name="weather", look=lambda: CheckResult("it rains"), within_s=30.0) -> OfferedCheck:
    return OfferedCheck("house", Check(name, "Rain is wet.", look, within_s))


def raising(error: BaseException):
    def look():
        raise error

    return look


def only(look, within_s=30.0) -> Result:
    (result,) = examine([check(look=look, within_s=within_s)], CLOCK)
    return result


@pytest.mark.parametrize(
    ("looked", "state"),
    [
        (CheckResult("it is dry"), CheckState.OK),
        (CheckResult("", (LEAK,)), CheckState.ERROR),
        (CheckResult("", (DRIP,)), CheckState.WARNING),
        (CheckResult("", (DRIP, LEAK)), CheckState.ERROR),
        (CheckResult("it is dark", known=False), CheckState.UNKNOWN),
        (CheckResult("it is dark", (DRIP,), known=False), CheckState.UNKNOWN),
        (CheckResult("it is dark", (LEAK,), known=False), CheckState.ERROR),
    ],
)
def test_the_state_follows_from_what_was_seen(looked, state):
    """What is fatal is an error; what cannot be seen is unknown, never well."""
    result = only(lambda: looked)
    assert result.state is state
    assert (result.seen, result.findings) == (looked.seen, looked.findings)
    assert result.fatal is (state is CheckState.ERROR)


def test_an_error_of_tarn_is_a_finding():
    """With its code and all its parts."""
    error = LaunchError(
        "yarn", "no answer", code="TARN-3130", right="It listens on 8032.", next_step="Start it"
    )
    result = only(raising(error))
    assert result.state is CheckState.ERROR
    (found,) = result.findings
    assert found == Finding("TARN-3130", "yarn", "no answer. It listens on 8032.", "Start it")


def test_several_errors_at_once_are_as_many_findings():
    """A configuration has all of them."""
    errors = ConfigErrors([ConfigError("a is wrong", where="a"), ConfigError("b is wrong")])
    result = only(raising(errors))
    assert [one.found for one in result.findings] == ["a is wrong", "b is wrong"]


def test_an_error_without_a_step_points_to_its_code():
    """Each finding says what to do."""
    assert finding(LaunchError("yarn", "no answer")).next_step == "tarn help TARN-3100"


@pytest.mark.parametrize(
    "error", [KeyError("queue"), SystemExit(3), KeyboardInterrupt(), AssertionError()]
)
def test_any_other_exception_is_the_plugin_s_fault(error):
    """It names plugin, check and exception; nobody's cluster is broken by it, nothing is known."""
    result = only(raising(error))
    assert result.state is CheckState.UNKNOWN
    assert result.seen
    (found,) = result.findings
    assert (found.code, found.where, found.fatal) == ("TARN-6000", "plugin house", False)
    assert "'weather'" in found.found
    assert type(error).__name__ in found.found
    assert "TARN_DISABLED_PLUGINS=house" in found.next_step


def test_findings_may_come_as_any_sequence():
    """A list, or a generator: they are told once and in order."""
    for findings in ([LEAK, DRIP], (one for one in (LEAK, DRIP))):
        looked = CheckResult("", findings)
        assert only(lambda looked=looked: looked).findings == (LEAK, DRIP)


@pytest.mark.parametrize(
    "answer", [None, "fine", Finding, (), CheckResult("", ("leak",)), CheckResult("", 3)]
)
def test_an_answer_of_another_kind_is_the_plugin_s_fault(answer):
    """It is not taken for well."""
    result = only(lambda: answer)
    assert result.state is CheckState.UNKNOWN
    assert result.findings[0].code == "TARN-6000"


def test_a_check_that_hangs_is_unknown_and_holds_up_nobody():
    """With its name and the time; the others are told, and the order stays."""
    forever = threading.Event()
    offered = [
        check("first"),
        check("stuck", forever.wait, within_s=0.2),
        check("last"),
    ]
    began_s = time.monotonic()
    results = examine(offered, CLOCK)
    assert time.monotonic() - began_s < 5
    assert [one.check for one in results] == ["first", "stuck", "last"]
    assert [one.state for one in results] == [CheckState.OK, CheckState.UNKNOWN, CheckState.OK]
    assert results[1].seen == "it did not finish within 0.2 s"
    forever.set()


def test_checks_that_hang_leave_room_for_others():
    """With one at a time, who is given up no longer counts."""
    forever = threading.Event()
    offered = [check(f"stuck {n}", forever.wait, 0.1) for n in range(3)] + [check("last")]
    results = examine(offered, CLOCK, at_once=1)
    assert [one.state for one in results] == [*[CheckState.UNKNOWN] * 3, CheckState.OK]
    forever.set()


def test_what_comes_too_late_changes_nothing():
    """A look that returns after it was given up is not heard."""
    late, others = threading.Event(), threading.Event()

    def slow():
        late.wait(10)
        return CheckResult("", (LEAK,))

    def other():
        late.set()  # the slow one answers while others still look
        others.wait(0.3)
        return CheckResult("it is dry")

    offered = [
        check("slow", slow, 0.1),
        check("before", lambda: others.wait(0.2) or CheckResult("x")),
    ]
    results = examine([*offered, check("other", other)], CLOCK, at_once=2)
    assert [one.state for one in results] == [CheckState.UNKNOWN, CheckState.OK, CheckState.OK]


def test_the_deadline_counts_from_when_it_begins():
    """Waiting for its turn is nobody's fault."""
    clock = SlowClock()

    def first():
        clock.time_s += 100
        return CheckResult("done")

    offered = [check("first", first, 1000.0), check("second", within_s=50.0)]
    assert [one.state for one in examine(offered, clock, at_once=1)] == [
        CheckState.OK,
        CheckState.OK,
    ]


def test_they_look_side_by_side():
    """Two that wait for each other both come to their end."""
    both = threading.Barrier(2)

    def meet():
        both.wait(5)
        return CheckResult("met")

    results = examine([check("one", meet), check("two", meet)], CLOCK)
    assert {one.seen for one in results} == {"met"}


def test_two_checks_of_one_name_name_both_plugins():
    """Nothing is looked at."""
    looked = []
    one = OfferedCheck("house", Check("roof", "It is above.", lambda: looked.append(1)))
    two = OfferedCheck("garden", Check("roof", "It is green.", lambda: looked.append(2)))
    with pytest.raises(PluginError) as caught:
        examine([one, two], CLOCK)
    assert caught.value.plugin == "garden"
    assert "house" in str(caught.value)
    with pytest.raises(PluginError, match="two checks named 'roof'"):
        examine([one, one], CLOCK)
    assert looked == []


def test_progress_says_what_is_still_looked_at():
    """And how many are done."""
    said: list[Progress] = []
    examine([check(f"check {n}") for n in range(30)], CLOCK, said.append)
    assert all(one.of == 30 for one in said)
    assert said[0].message.startswith("0 of 30 done; check 0, check 1")
    assert all(len(one.message) <= 100 for one in said)
    assert [one.done for one in said] == sorted(one.done for one in said)


def test_nothing_to_look_at_is_no_error():
    """No plugin offers anything."""
    assert examine([], CLOCK) == ()


FINDINGS = st.lists(
    st.builds(
        Finding,
        code=st.sampled_from(["WET-1", "WET-2"]),
        where=st.sampled_from(["roof", ""]),
        found=st.sampled_from(["it leaks", "it drips"]),
        next_step=st.just("Mend it"),
        fatal=st.booleans(),
    ),
    max_size=4,
).map(tuple)
RESULTS = st.lists(
    st.builds(
        Result.of,
        st.builds(Check, st.text("abc", min_size=1), st.just("Why."), st.just(raising(KeyError()))),
        st.builds(CheckResult, st.text("xyz"), FINDINGS, st.booleans()),
    ),
    max_size=8,
)


@given(RESULTS)
def test_totals_count_each_check_once(results):
    """Every state is there, the worst first."""
    counted = totals(results)
    assert sum(counted.values()) == len(results)
    assert list(counted) == [
        CheckState.ERROR,
        CheckState.WARNING,
        CheckState.UNKNOWN,
        CheckState.OK,
    ]


@given(RESULTS)
def test_the_worst_comes_last_and_nothing_else_moves(results):
    """Within one state the order is the one they have; sorting twice is sorting once."""
    ordered = worst_last(results)
    ranks = [list(CheckState).index(one.state) for one in ordered]
    assert ranks == sorted(ranks)
    for state in CheckState:
        assert [r for r in ordered if r.state is state] == [r for r in results if r.state is state]
    assert worst_last(ordered) == ordered


@given(RESULTS)
def test_once_tells_everything_and_nothing_twice(results):
    """No finding is lost, none is told twice, and what is fatal stays so."""
    left = once(results)
    told = [one for result in left for one in result.findings]
    assert len(set(told)) == len(told)
    assert set(told) == {one for result in results for one in result.findings}
    assert any(one.fatal for one in left) == any(one.fatal for one in results)
    assert [one.check for one in left] == [one.check for one in results]
    assert once(left) == left


@given(RESULTS)
def test_a_state_and_its_findings_agree(results):
    """Also after `once`: an error has something fatal, what is well has no findings."""
    for result in (*results, *once(results)):
        assert (result.state is CheckState.ERROR) == any(one.fatal for one in result.findings)
        if result.state is CheckState.OK:
            assert not result.findings
        if result.state is CheckState.WARNING:
            assert result.findings


@given(RESULTS)
def test_rows_for_programs_have_one_shape(results):
    """Text only, and a level for each finding."""
    for result in results:
        row = result.plain()
        assert list(row) == ["check", "state", "seen", "matters", "findings"]
        assert type(row["state"]) is str
        for one, finding_ in zip(row["findings"], result.findings, strict=True):
            assert list(one) == ["code", "level", "where", "found", "next_step"]
            assert one["level"] == ("error" if finding_.fatal else "warning")
