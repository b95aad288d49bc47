"""What doctor reads in the scheduler's answer, of this Hadoop and of older ones."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarn_plugins.runtime.yarn.doctor.looking import scheduler


def resource(memory: int, vcores: int, gpus: int | None = None) -> dict[str, Any]:
    types = {"memory-mb": memory, "vcores": vcores}
    types |= {} if gpus is None else {"yarn.io/gpu": gpus}
    rows = [{"name": name, "value": value} for name, value in types.items()]
    return {
        "memory": memory,
        "vCores": vcores,
        "resourceInformations": {"resourceInformation": rows},
    }


def leaf(name: str, masters: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "type": "capacitySchedulerLeafQueueInfo",
        "queueName": name,
        "userLimitFactor": 2.0,
        "configuredMaxAMResourceLimit": 0.5,
        "AMResourceLimit": masters,
        "usedAMResource": resource(1024, 1, 0),
        "numActiveApplications": 1,
        "numApplications": 3,
        "maxApplications": 100,
        "capacities": {
            "queueCapacitiesByPartition": [
                {
                    "partitionName": "",
                    "effectiveMinResource": resource(8192, 16, 2),
                    "effectiveMaxResource": resource(16384, 32, 4),
                }
            ]
        },
        "resources": {
            "resourceUsagesByPartition": [
                {"partitionName": "", "used": resource(2048, 2, 0)},
                {"partitionName": "gpu", "used": resource(0, 0, 0)},
            ]
        },
        **more,
    }


def capacity(*queues: dict[str, Any]) -> dict[str, Any]:
    info = {"type": "capacityScheduler", "queueName": "root", "queues": {"queue": list(queues)}}
    return {"scheduler": {"schedulerInfo": info}}


def test_a_leaf_of_the_capacity_scheduler() -> None:
    """Everything a rule asks for, with the path put together from the tree."""
    team = {"queueName": "team", "queues": {"queue": [leaf("a", resource(8192, 16, 2))]}}
    found = scheduler(capacity(team, leaf("b", resource(8192, 16))))
    assert found is not None
    assert [one.path for one in found.queues] == ["root.team.a", "root.b"]
    assert (found.kind, found.counts_all) == ("capacity", True)
    one = found.queue("a")
    assert one is not None
    assert one is found.queue("root.team.a")
    assert (one.user_factor, one.master_percent, one.active, one.applications) == (2.0, 0.5, 1, 3)
    assert one.max_lifetime_s is None
    part = one.partition("")
    assert part is not None
    assert part.most == {"memory-mb": 16384, "vcores": 32, "yarn.io/gpu": 4}
    assert part.masters == {"memory-mb": 8192, "vcores": 16, "yarn.io/gpu": 2}
    assert part.used["memory-mb"] == 2048
    assert one.partition("gpu") is not None
    assert one.partition("other") is None


def test_one_vcore_for_all_masters_is_a_calculator_of_memory() -> None:
    """So DefaultResourceCalculator writes every sum; half of 32 vcores would be 16."""
    found = scheduler(capacity(leaf("a", resource(8192, 1))))
    assert found is not None
    assert found.counts_all is False


def test_an_older_answer_has_two_types_only() -> None:
    """Before resource types there are memory and vcores."""
    found = scheduler(capacity(leaf("a", {"memory": 8192, "vCores": 16})))
    assert found is not None
    assert found.queues[0].partitions[0].masters == {"memory-mb": 8192, "vcores": 16}


def test_a_fair_scheduler() -> None:
    """Its queues name their whole path; one alone stands without brackets."""
    queue = {
        "queueName": "root.default",
        "schedulingPolicy": "DRF",
        "maxResources": resource(1024, 4, 1),
        "numActiveApps": 1,
        "numPendingApps": 2,
        "maxApps": 9,
    }
    root = {"queueName": "root", "schedulingPolicy": "fair", "childQueues": {"queue": queue}}
    found = scheduler(
        {"scheduler": {"schedulerInfo": {"type": "fairScheduler", "rootQueue": root}}}
    )
    assert found is not None
    assert (found.kind, found.policy, found.counts_all) == ("fair", "fair", None)
    (one,) = found.queues
    assert (one.path, one.policy, one.applications) == ("root.default", "drf", 3)


@pytest.mark.parametrize(
    "answer", [None, [], {}, {"scheduler": None}, {"scheduler": {"schedulerInfo": {}}}, "text"]
)
def test_what_is_no_answer_is_none(answer: Any) -> None:
    """Nothing is known then, and nothing fails."""
    assert scheduler(answer) is None


def test_another_scheduler_has_its_name() -> None:
    """A rule says that it does not know it."""
    found = scheduler({"scheduler": {"schedulerInfo": {"type": "fifoScheduler"}}})
    assert found is not None
    assert (found.kind, found.queues) == ("fifo", ())


plain = st.recursive(
    st.none() | st.booleans() | st.text("ab", max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["queues", "queue", "capacities", "resources", "queueName"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(plain)
def test_strange_shapes_are_passed_over(queues: Any) -> None:
    """Another version may leave out, or rename, whatever it likes."""
    info = {"type": "capacityScheduler", "queues": queues}
    assert scheduler({"scheduler": {"schedulerInfo": info}}) is not None
