"""What the RM says about places that will be taken, with plain objects in the place of Java's."""

from types import SimpleNamespace
from typing import Any

import attrs

from tarn_plugins.runtime.yarn.hadoop import records


@attrs.frozen
class Node:
    host: str

    def getHost(self) -> str:  # noqa: N802
        return self.host

    def __str__(self) -> str:
        return f"{self.host}:45454"


def report(host: str, state: str, limit_s: int | None = None) -> Any:
    return SimpleNamespace(
        getNodeId=lambda: Node(host),
        getNodeState=lambda: state,
        getDecommissioningTimeout=lambda: limit_s,
    )


def part(*ids: str) -> Any:
    return SimpleNamespace(
        getContainers=lambda: [SimpleNamespace(getId=lambda i=i: i) for i in ids]
    )


def test_only_decommissioning_nodes_are_left() -> None:
    """After an RM's restart every node is reported anew: that is no news."""
    found = records.leaving_nodes(
        [
            report("nm1", "RUNNING"),
            report("nm2", "DECOMMISSIONING", 600),
            report("nm3", "DECOMMISSIONING"),
            report("nm4", "LOST"),
        ]
    )
    assert found == {
        "nm2:45454": "its node nm2 is put out of service within 600 s",
        "nm3:45454": "its node nm3 is put out of service",
    }


def test_both_parts_of_a_preemption_count() -> None:
    """What is strict is said so, also where it is negotiable too."""
    message = SimpleNamespace(
        getContract=lambda: part("c1", "c2"), getStrictContract=lambda: part("c2", "c3")
    )
    found = dict(records.preempted(message))
    assert sorted(found) == ["c1", "c2", "c3"]
    assert "may soon take it away" in found["c1"]
    assert "will soon take it away" in found["c2"]


def test_no_preemption_is_no_preemption() -> None:
    """The message, and each part of it, may be missing."""
    assert list(records.preempted(None)) == []
    empty = SimpleNamespace(getContract=lambda: None, getStrictContract=lambda: None)
    assert list(records.preempted(empty)) == []


def test_a_completed_container_may_say_nothing() -> None:
    """Java's null is no text."""
    status = SimpleNamespace(
        getContainerId=lambda: "container_1",
        getExitStatus=lambda: -100,
        getDiagnostics=lambda: None,
    )
    over = records.completed(status)
    assert (over.container_id, over.exit_code, over.diagnostics) == ("container_1", -100, "")


def test_what_yarn_says_is_masked() -> None:
    """Diagnostics go on into facts, logs and the API."""
    said = "GET http://nn:9870/webhdfs/v1/x?delegation=HAAEd2 and hdfs://me:pw@nn/x failed"
    status = SimpleNamespace(
        getContainerId=lambda: "c1", getExitStatus=lambda: 1, getDiagnostics=lambda: said
    )
    assert records.completed(status).diagnostics == (
        "GET http://nn:9870/webhdfs/v1/x?delegation=*** and hdfs://***@nn/x failed"
    )
    each = SimpleNamespace(
        getRequest=lambda: SimpleNamespace(getAllocationRequestId=lambda: 3),
        getReason=lambda: "password=secret",
    )
    assert records.rejected(each).reason == "password=***"
