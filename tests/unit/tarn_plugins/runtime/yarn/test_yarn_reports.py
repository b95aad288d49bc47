"""What YARN says of an application, in words."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarn.domain import Epoch
from tarn_plugins.runtime.yarn.client import reports
from tarn_plugins.runtime.yarn.client.reports import ApplicationAttempt, ApplicationReport

EXITED = """AM Container for appattempt_1_0006_000001 exited with  exitCode: 3
Failing this attempt.Diagnostics: [2026-11-28 03:29:20.1]Exception from container-launch.
Container id: container_1_0006_01_000001
Exit code: 3

[2026-11-28 03:29:20.105]Container exited with a non-zero exit code 3. Error file: prelaunch.err.
Last 4096 bytes of prelaunch.err :
Last 4096 bytes of master.stderr :
line 1
error: nothing can come of this


[2026-11-28 03:29:20.106]Container exited with a non-zero exit code 3. Error file: prelaunch.err.
Last 4096 bytes of master.stderr :
line 1
For more detailed output, check the application tracking page: http://rm/cluster/app/x
"""
LOST = """AM Container for appattempt_1_0006_000001 exited with  exitCode: -1000
Failing this attempt.Diagnostics: [2026-11-28 03:29:20.1]Token has expired
For more detailed output, check the application tracking page: http://rm/cluster/app/x
"""
RUNNING = ApplicationReport(
    "application_1_0006", "RUNNING", host="nm1", port=4711, submitted_ms=1234, attempt=2
)


def test_a_master_that_listens_has_a_url() -> None:
    """Its own, and the one through the proxy."""
    ref = reports.ref_of(attrs.evolve(RUNNING, tracking_url="http://rm:8088/proxy/x/"), "llama")
    assert (ref.url, ref.proxy_url) == ("http://nm1:4711", "http://rm:8088/proxy/x")
    assert (ref.epoch, ref.application_id) == (Epoch(1234, 2), "application_1_0006")


@pytest.mark.parametrize("changes", [{"state": "ACCEPTED"}, {"host": ""}, {"port": 0}])
def test_one_that_does_not_has_none(changes: dict[str, object]) -> None:
    """Between two attempts YARN's report still holds the old address."""
    ref = reports.ref_of(attrs.evolve(RUNNING, **changes), "llama")
    assert (ref.url, ref.proxy_url) == (None, None)


def test_a_failure_has_the_exit_code_and_the_last_words() -> None:
    """YARN's own frame around them is left out."""
    found = reports.failure(attrs.evolve(RUNNING, state="FAILED", diagnostics=EXITED))
    assert found.splitlines() == [
        "the master ended with code 3; its last output:",
        "  line 1",
        "  error: nothing can come of this",
    ]


def test_yarns_own_exit_codes_are_in_words() -> None:
    """A negative code is YARN's word, not the program's."""
    found = reports.failure(attrs.evolve(RUNNING, state="FAILED", diagnostics=LOST))
    assert found == (
        "the master ended: its files could not be brought to the node (-1000); Token has expired"
    )


@pytest.mark.parametrize(("text", "gives_up"), [(EXITED, True), (LOST, False), ("", False)])
def test_a_master_that_ended_by_itself_is_not_waited_for(text: str, gives_up: bool) -> None:
    """One that YARN lost is waited for: the next attempt may do better."""
    report = attrs.evolve(
        RUNNING, attempts=(ApplicationAttempt(1, "FAILED", text), ApplicationAttempt(2, "LAUNCHED"))
    )
    assert bool(reports.given_up(report)) is gives_up


def test_endings_tell_who_ended_it() -> None:
    """Killed by somebody is stopped; a start that `up` gave up has failed."""
    by = "Application application_1_0006 was killed by user ann at 10.0.0.1"
    over = attrs.evolve(RUNNING, state="KILLED", final_status="KILLED", finished_ms=5000)
    cases = {
        by: ("stopped", "killed by ann"),
        f"{by} with diagnostic message: why": ("stopped", "killed by ann: why"),
        f"{by} with diagnostic message: {reports.GIVEN_UP}x": ("failed", "x"),
    }
    for text, told in cases.items():
        ending = reports.ending(attrs.evolve(over, diagnostics=text), "llama")
        assert (ending.state, ending.reason) == told
        assert (ending.at, ending.ref.url) == (5.0, None)
    down = attrs.evolve(over, state="FINISHED", final_status="SUCCEEDED", diagnostics="down")
    assert reports.ending(down, "llama").state == "stopped"
    failed = attrs.evolve(over, state="FAILED", final_status="FAILED", diagnostics=EXITED)
    assert reports.ending(failed, "llama").state == "failed"


def test_waiting_has_the_queue_and_yarns_reason() -> None:
    """The details behind YARN's first sentence are left out."""
    text = "Queue's AM resource limit exceeded.  Details : AM Partition = <DEFAULT>; and more"
    report = ApplicationReport("a", "ACCEPTED", queue="root.gpu", diagnostics=text)
    assert reports.waiting(report) == (
        "it waits in the queue 'root.gpu': Queue's AM resource limit exceeded"
    )


@pytest.mark.parametrize("code", [-104, 143, 137])
def test_a_master_that_ran_out_of_memory_says_what_to_raise(code: int) -> None:
    """YARN's SIGTERM may be faster than its own code for it."""
    text = (
        f"AM Container for appattempt_1_0006_000001 exited with  exitCode: {code}\n"
        "Failing this attempt.Diagnostics: Container [pid=7,containerID=c] is running 123B beyond "
        "the 'PHYSICAL' memory limit. Current usage: 1.1 GB of 1 GB physical memory used; 2 GB of "
        "2.1 GB virtual memory used. Killing container."
    )
    assert reports.failure(ApplicationReport("a", "FAILED", diagnostics=text)) == (
        "the master ended: out of memory: it used 1.1 GB of 1 GB physical memory. "
        "Raise master.memory"
    )


@given(st.text(max_size=3000), st.sampled_from(["NEW", "ACCEPTED", "FAILED", "KILLED", "FINISHED"]))
def test_any_diagnostics_become_words(text: str, state: str) -> None:
    """No text of YARN's makes a report raise, or say nothing."""
    report = ApplicationReport(
        "a", state, diagnostics=text, attempts=(ApplicationAttempt(1, "FAILED", text),)
    )
    assert reports.failure(report).strip()
    assert reports.waiting(report).strip()
    assert reports.ending(report, "llama").state in ("failed", "stopped")
    assert isinstance(reports.given_up(report), str)


def test_a_late_master_says_what_became_of_the_attempts_before() -> None:
    """A cluster that is slower than YARN's expiry starts one after the other."""
    timed_out = "ApplicationMaster for attempt appattempt_1_0006_000001 timed out"
    attempts = (ApplicationAttempt(1, "FAILED", timed_out), ApplicationAttempt(2, "LAUNCHED"))
    report = attrs.evolve(RUNNING, state="ACCEPTED", attempts=attempts)
    error = reports.late_start(report, 60.0, granted=True)
    assert error.found == (
        "its master did not come up within 60 s after it got its container: its container was "
        f"started; the master has not registered yet; attempt 1 was given up: {timed_out}"
    )


def test_a_later_attempt_that_does_not_listen_yet_is_a_master_that_comes_back() -> None:
    """The first one is only being started."""
    assert reports.ref_of(attrs.evolve(RUNNING, state="ACCEPTED"), "llama").restarts
    assert not reports.ref_of(attrs.evolve(RUNNING, state="ACCEPTED", attempt=1), "llama").restarts
    assert not reports.ref_of(RUNNING, "llama").restarts
