"""What is wrong, from what was read."""

import attrs
from fake_master import snapshot

from tarn.control.issues import of_fleet, of_looks, of_readings
from tarn.control.look_queue import LookStatus
from tarn.domain import ClusterSpec, Endpoint, Epoch, Instance, InstanceState, Reading
from tarn.domain.fleet import Fleet, ReportedFailures, Rules
from tarn.domain.hint_checks import HOLDS_S
from tarn.domain.instance import Symptom, Unwell
from tarn.domain.spec import ModelsSpec


def test_instances_without_metrics_are_told_once_with_what_is_lacking() -> None:
    """Only ready ones: one that starts may be late, and one that drains is not scaled by."""
    one = Instance("w-0001", "h", InstanceState.READY, endpoint=Endpoint("h", 1, 2, 3))
    fleet = Fleet("w", Epoch(1, 1), 2, (one, attrs.evolve(one, id="w-0002")))
    readings = {
        "w-0001": Reading("w-0001", 1.0, unmeasured="connection refused by h:3"),
        "w-0002": Reading("w-0002", 1.0),
    }
    (trouble,) = of_readings(fleet, readings)
    assert (trouble.code, trouble.subject) == ("TARN-1137", "w")
    assert trouble.public.startswith("the metrics of 1 of 2 instances cannot be read; ")
    assert trouble.found.endswith(" (w-0001: connection refused by h:3)")
    assert list(of_readings(fleet, {})) == []


def test_stubs_that_ended_are_told_by_instance_and_without_names_in_health() -> None:
    """Not of those that drain; one line for all where everybody may read it."""
    one = Instance("w-0001", "h", InstanceState.READY, stub_ended="process m_0_0 of 'm' was killed")
    two, leaving = (attrs.evolve(one, id=f"w-000{n}") for n in (2, 3))
    leaving = attrs.evolve(leaving, state=InstanceState.DRAINING)
    fleet = Fleet("w", Epoch(1, 1), 2, (one, two, leaving, attrs.evolve(one, stub_ended="")))
    rules = Rules(ClusterSpec("w", ModelsSpec("/models")), "h")
    first, second = of_fleet(fleet, rules, 0.0)
    assert [(t.code, t.subject, t.found) for t in (first, second)] == [
        ("TARN-1124", "w-0001", f"w-0001: {one.stub_ended}"),
        ("TARN-1124", "w-0002", f"w-0002: {one.stub_ended}"),
    ]
    public = "on 2 of 4 instances a Python model's process ended"
    assert (first.public, second.public) == (public, public)
    shown = attrs.evolve(snapshot(), issues=(first, second))
    assert shown.faults == (public,)


def test_what_clients_tell_is_a_warning_of_its_instance_for_a_while() -> None:
    """Their word is no proof: health has none of it, and what outcomes show says more."""
    one = Instance("w-0001", "h", InstanceState.READY)
    unwell = Unwell(Symptom.FAILING, "m", "it failed 9 of 9", 0.0)
    two = attrs.evolve(one, id="w-0002", unwell=unwell)
    told = tuple(
        ReportedFailures("c", "u", id_, "m", 3, 10.0) for id_ in ("w-0001", "w-0002", "w-0009")
    )
    fleet = Fleet("w", Epoch(1, 1), 2, (one, two), told_failures=told)
    rules = Rules(ClusterSpec("w", ModelsSpec("/models")), "h")
    (trouble,) = of_fleet(fleet, rules, 11.0)
    assert (trouble.code, trouble.subject, trouble.public) == ("TARN-1128", "w-0001", "")
    assert trouble.found == "w-0001: clients avoid it after 3 bad answers"
    assert list(of_fleet(fleet, rules, 10.0 + HOLDS_S)) == []


def test_looks_that_stay_late_are_told_and_a_short_delay_is_not() -> None:
    """A first round, or a machine that slept, is over soon."""
    assert list(of_looks(LookStatus(2.0, 9.9), "w")) == []
    (issue,) = of_looks(LookStatus(2.0, 31.4), "w")
    assert (issue.code, issue.subject, issue.public) == ("TARN-1061", "w", issue.found)
    assert "for 31 s to look at each instance every 2 s" in issue.found
