"""What a YARN has against a spec."""

import attrs
import pytest

from tarn.domain import ClusterSpec
from tarn.domain.codes import CODES
from tarn.domain.spec import InstanceSpec, MasterSpec, PlacementSpec, ReplicasSpec, ResourcesSpec
from tarn.errors import LaunchError
from tarn.testing.context import cluster_spec
from tarn_plugins.runtime.yarn.client import checks
from tarn_plugins.runtime.yarn.client.checks import Queue, YarnOverview
from tarn_plugins.runtime.yarn.survey import YarnNode

LAND = YarnOverview(
    user="ann",
    queues=(
        Queue("root.default"),
        Queue("root.gpu", labels=("a100",)),
        Queue("root.off", running=False),
        Queue("root.ops", may_submit=False),
    ),
    maximum={"memory-mb": 8192, "vcores": 16, "yarn.io/gpu": 2},
    labels=("a100", "v100"),
    am_max_attempts=10,
)
SPEC = cluster_spec()


def found(
    spec: ClusterSpec = SPEC,
    queue: str = "default",
    python: str = "/opt/python",
    overview: YarnOverview = LAND,
):
    return list(checks.findings(spec, queue, python, overview))


def resources(**parts: object) -> ClusterSpec:
    return attrs.evolve(SPEC, instance=InstanceSpec(ResourcesSpec(**parts)))


def test_what_fits_has_no_finding() -> None:
    """A spec within every limit is heard without a word."""
    assert found() == []


@pytest.mark.parametrize("queue", ["nope", "off", "ops", "root"])
def test_a_queue_that_cannot_be_used_is_told_with_those_that_can(queue: str) -> None:
    """Missing, stopped, closed to the user, or no leaf: each names the usable ones."""
    (finding,) = found(queue=queue)
    assert (finding.code, finding.fatal) == ("TARN-3133", True)
    assert "root.default, root.gpu" in finding.next_step


@pytest.mark.parametrize(
    ("spec", "code", "words"),
    [
        (resources(memory_mib=9000), "TARN-3134", "yarn.scheduler.maximum-allocation-mb"),
        (resources(vcores=17), "TARN-3134", "yarn.scheduler.maximum-allocation-vcores"),
        (resources(gpus=3), "TARN-3135", "yarn.resource-types.yarn.io/gpu.maximum-allocation"),
        (resources(gpus=1, gpu_resource="nvidia.com/mig"), "TARN-3135", "yarn.resource-types"),
        (attrs.evolve(SPEC, master=MasterSpec(memory_mib=9000)), "TARN-3134", "master.memory"),
        (attrs.evolve(SPEC, placement=PlacementSpec(node_label="nope")), "TARN-3136", "empty"),
    ],
)
def test_what_yarn_would_never_grant_is_refused(spec: ClusterSpec, code: str, words: str) -> None:
    """The step names the property of YARN, or the key to mend."""
    (finding,) = found(spec)
    assert (finding.code, finding.fatal) == (code, True)
    assert words in finding.next_step


def test_fewer_nodes_than_instances_is_said_at_submission() -> None:
    """Each node gets one: the fourth would wait for ever. Without the spread there is room."""
    nodes = tuple(YarnNode(f"n{i}", total={"memory-mb": 8192, "vcores": 16}) for i in range(3))
    overview = attrs.evolve(LAND, nodes=nodes)
    four = attrs.evolve(SPEC, replicas=ReplicasSpec(min=4, max=4))
    (finding,) = found(four, overview=overview)
    assert (finding.code, finding.fatal) == ("TARN-3144", False)
    assert finding.where == "replicas.min = 4"
    assert finding.found == "only 3 nodes can hold an instance, and each gets one: n0, n1, n2"
    assert (
        found(attrs.evolve(four, placement=PlacementSpec(spread="none")), overview=overview) == []
    )
    assert found(attrs.evolve(SPEC, replicas=ReplicasSpec(min=3, max=4)), overview=overview) == []


def test_a_label_that_the_queue_may_not_use() -> None:
    """A label that YARN has is not yet one for every queue."""
    spec = attrs.evolve(SPEC, placement=PlacementSpec(node_label="v100"))
    assert found(spec) == []
    assert [f.code for f in found(spec, queue="gpu")] == ["TARN-3136"]


def test_notes_are_not_fatal() -> None:
    """What works with less is said, and the start goes on."""
    overview = attrs.evolve(LAND, am_max_attempts=2, placement="plain", placement_reason="disabled")
    assert {
        (f.code, f.fatal) for f in found(overview=overview, python="/home/ann/venv/bin/python")
    } == {
        ("TARN-3137", False),
        ("TARN-3139", False),
        ("TARN-3140", False),
    }


def test_a_relative_interpreter_and_a_staging_that_is_not_writable() -> None:
    """Both findings come at once, and both are fatal."""
    overview = attrs.evolve(LAND, staging="/x", staging_problem="cannot be written")
    assert [(f.code, f.fatal) for f in found(python="python3", overview=overview)] == [
        ("TARN-3138", True),
        ("TARN-3139", True),
    ]


def test_every_code_is_in_the_table() -> None:
    """`tarn help CODE` knows whatever a check says."""
    used = {f"TARN-{n}" for n in (3130, 3132, 3133, 3134, 3135, 3136, 3137, 3138, 3139, 3140, 3141)}
    assert used <= set(CODES)


def test_an_error_of_the_first_question_is_a_finding() -> None:
    """What YARN's client raises keeps its code, place and step."""
    finding = checks.from_error(LaunchError("java", "no Java", code="TARN-3122", next_step="do"))
    assert finding == checks.Finding("TARN-3122", "java", "no Java", "do")
