"""Each rule of doctor about YARN and HDFS: a good survey has nothing, a bad one the fix."""

from collections.abc import Callable
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarn.clock import Skew
from tarn.domain.codes import CODES
from tarn.interfaces import CheckResult, Finding
from tarn.plain import structure
from tarn.testing.context import cluster_spec
from tarn_plugins.runtime.yarn import Docker, YarnSettings
from tarn_plugins.runtime.yarn.doctor.case import Case, NotSeen
from tarn_plugins.runtime.yarn.doctor.offer import RULES
from tarn_plugins.runtime.yarn.survey import (
    Client,
    HdfsSurvey,
    NodeSettings,
    Partition,
    Queue,
    QueueFacts,
    Quota,
    ResourceManagerSurvey,
    Scheduler,
    Survey,
    YarnNode,
    YarnOverview,
    amounts_text,
    listed,
)

GIB = 2**30
SIZE = {"memory-mb": 65536, "vcores": 32, "yarn.io/gpu": 4}
NODES = tuple(YarnNode(f"n{i}", label="" if i < 3 else "gpu", total=SIZE) for i in range(6))
WHOLE = {kind: 3 * amount for kind, amount in SIZE.items()}
PART = Partition("", WHOLE, WHOLE, {}, {"memory-mb": 20000, "vcores": 9}, {})
LAND = YarnOverview(
    user="ann",
    queues=(Queue("root.default"), Queue("root.ops", may_submit=False), Queue("root.off", False)),
    maximum=SIZE,
    labels=("gpu", "empty"),
    nodes=NODES,
    am_max_attempts=10,
    staging="hdfs://nn/user/ann/.tarn",
)
NM = "yarn.nodemanager"
RUNTIME = f"{NM}.runtime.linux"
LIVE = {
    f"{NM}.recovery.enabled": "true",
    f"{NM}.recovery.supervised": "true",
    f"{NM}.sleep-delay-before-sigkill.ms": "60000",
    f"{NM}.resource.memory.enabled": "true",
    f"{NM}.container-executor.class": f"org.apache.hadoop.{NM}.LinuxContainerExecutor",
    f"{RUNTIME}.allowed-runtimes": "default,docker",
    f"{RUNTIME}.docker.allowed-container-networks": "host,none,bridge",
    f"{RUNTIME}.docker.allowed-container-runtimes": "runc,nvidia",
    f"{NM}.linux-container-executor.cgroups.v2.enabled": "true",
}
PROPERTIES = {
    "yarn.resourcemanager.recovery.enabled": "true",
    "yarn.log-aggregation-enable": "true",
    "yarn.scheduler.minimum-allocation-mb": "1024",
}
QUEUE = QueueFacts(
    "root.default",
    (PART, attrs.evolve(PART, label="gpu")),
    user_factor=1.0,
    master_percent=0.1,
    most_applications=100,
    max_lifetime_s=-1,
    default_lifetime_s=-1,
)
HDFS = HdfsSurvey(
    "hdfs://nn/user/ann/.tarn", existing="hdfs://nn/user/ann", block=3 * 2**27, free=GIB
)
GOOD = Survey(
    client=Client("ann", "3.4.2", "17.0.1", "/java", kerberos=True, token_life_s=604800.0),
    overview=LAND,
    resource_managers=(
        ResourceManagerSurvey("http://rm1:8088", "ACTIVE", "3.4.2", Skew(-0.5, 0.5)),
        ResourceManagerSurvey("http://rm2:8088", "STANDBY", "3.4.2", Skew(-0.5, 0.5)),
    ),
    properties=PROPERTIES,
    scheduler=Scheduler("capacity", True, (QUEUE,)),
    nodes=(NodeSettings("n0", "3.4.2", LIVE), NodeSettings("n3", "3.4.2", LIVE)),
    name_node_clock=Skew(-0.5, 0.5),
    hdfs=HDFS,
)
Change = Callable[[Survey], Survey]


def case(
    survey: Survey = GOOD,
    spec: dict[str, Any] | None = None,
    settings: YarnSettings = YarnSettings(),  # noqa: B008 (a value)
    python: str = "/opt/python",
) -> Case:
    whole = {"name": "x", "models": {"repository": "hdfs:///models"}, **(spec or {})}
    made, problems = structure(type(cluster_spec()), whole)
    assert made is not None, problems
    return Case(made, settings, python, survey)


def look(name: str, asked: Case) -> CheckResult:
    (rule,) = [rule for rule in RULES if rule.name == name]
    return rule.look(asked)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_nothing_is_wrong_with_a_good_yarn(rule: Any) -> None:
    """Every rule sees something, and says so in words."""
    looked = rule.look(case())
    assert looked.findings == ()
    assert looked.known
    assert looked.seen
    assert not looked.seen.endswith(".")


def live(**parts: Any) -> Change:
    """Change the properties of the second node that was asked."""
    named = {f"{NM}.{key.replace('__', '-').replace('_', '.')}": v for key, v in parts.items()}
    changed = {k: v for k, v in {**LIVE, **named}.items() if v is not None}
    node = attrs.evolve(GOOD.nodes[1], properties=changed)
    return lambda survey: attrs.evolve(survey, nodes=(survey.nodes[0], node))


def queue(**parts: Any) -> Change:
    one = attrs.evolve(QUEUE, **parts)
    return lambda survey: attrs.evolve(survey, scheduler=Scheduler("capacity", True, (one,)))


def part(**parts: Any) -> Change:
    return queue(partitions=(attrs.evolve(PART, **parts),))


def overview(**parts: Any) -> Change:
    return lambda survey: attrs.evolve(survey, overview=attrs.evolve(LAND, **parts))


def hdfs(**parts: Any) -> Change:
    return lambda survey: attrs.evolve(survey, hdfs=attrs.evolve(HDFS, **parts))


def survey(**parts: Any) -> Change:
    return lambda survey: attrs.evolve(survey, **parts)


def resources(**parts: Any) -> dict[str, Any]:
    return {"instance": {"resources": parts}}


FOUR_RANKS = {
    "instance": {"resources": {"gpus": 8}, "parallelism": {"tensor": 4, "pipeline": 2}},
}
SMALL_NODES = tuple(attrs.evolve(n, total={**SIZE, "yarn.io/gpu": 1}) for n in NODES)
MOSTLY_LOST = (*NODES[:2], *(attrs.evolve(n, state="LOST", health="") for n in NODES[2:]))
DEFAULT = f"{NM}.DefaultContainerExecutor"
RM_SITE = "in yarn-site.xml of the ResourceManager"

BAD: tuple[tuple[str, str, str, Change, dict[str, Any]], ...] = (
    (
        "YARN connection",
        "TARN-3130",
        "step",
        survey(failure=Finding("TARN-3130", "", "no", "step")),
        {},
    ),
    (
        "YARN connection",
        "TARN-3142",
        "Start that ResourceManager",
        survey(resource_managers=(ResourceManagerSurvey("http://rm1:8088", problem="is silent"),)),
        {},
    ),
    (
        "YARN connection",
        "TARN-3142",
        "getAllServiceState",
        survey(resource_managers=(ResourceManagerSurvey("http://rm1:8088", "STANDBY"),)),
        {},
    ),
    (
        "Hadoop versions",
        "TARN-3121",
        "newer",
        survey(failure=Finding("TARN-3121", "", "old", "newer")),
        {},
    ),
    (
        "Hadoop versions",
        "TARN-3172",
        "runtime.options.hadoop_home",
        survey(resource_managers=(ResourceManagerSurvey("http://rm1:8088", "ACTIVE", "4.0.0"),)),
        {},
    ),
    ("clocks of YARN and HDFS", "TARN-3603", "NTP", survey(name_node_clock=Skew(400, 401)), {}),
    (
        "ResourceManager's recovery",
        "TARN-3149",
        f"yarn.resourcemanager.recovery.enabled = true {RM_SITE}",
        survey(properties={}),
        {},
    ),
    ("attempts of a master", "TARN-3137", "max-attempts) = 10", overview(am_max_attempts=2), {}),
    (
        "placement constraints",
        "TARN-3140",
        f"handler = scheduler {RM_SITE}",
        overview(placement="plain", placement_reason="disabled"),
        {},
    ),
    (
        "resource calculator",
        "TARN-3143",
        "DominantResourceCalculator in capacity-scheduler.xml",
        survey(scheduler=Scheduler("capacity", False, (QUEUE,))),
        {},
    ),
    (
        "resource calculator",
        "TARN-3143",
        "<schedulingPolicy>drf</schedulingPolicy>",
        survey(scheduler=Scheduler("fair", None, (), "fair")),
        {},
    ),
    (
        "logs of what ended",
        "TARN-3161",
        "yarn.log-aggregation-enable = true",
        survey(properties={}),
        {},
    ),
    (
        "resource types",
        "TARN-3135",
        "resource-types.xml",
        overview(),
        resources(gpus=1, gpu_resource="x/y"),
    ),
    (
        "resource types",
        "TARN-3135",
        "yarn.io/gpu.maximum-allocation = 4 or more",
        overview(maximum={**SIZE, "yarn.io/gpu": 2}),
        resources(gpus=4),
    ),
    (
        "largest container",
        "TARN-3134",
        "yarn.scheduler.maximum-allocation-mb = 32768 or more",
        overview(maximum={**SIZE, "memory-mb": 8192}),
        resources(memory="32GiB"),
    ),
    ("nodes for an instance", "TARN-3144", "nodes with more", overview(), FOUR_RANKS),
    (
        "nodes for an instance",
        "TARN-3144",
        "placement.spread = none",
        overview(),
        {"replicas": {"min": 4}},
    ),
    (
        "nodes for an instance",
        "TARN-3144",
        "Start the NodeManagers",
        overview(nodes=(YarnNode("n0", "LOST"), YarnNode("n1", "UNHEALTHY"))),
        {},
    ),
    ("health of the nodes", "TARN-3170", "Start its NodeManager", overview(nodes=MOSTLY_LOST), {}),
    (
        "node labels",
        "TARN-3136",
        "default partition",
        overview(),
        {"placement": {"node_label": "no"}},
    ),
    ("node labels", "TARN-3165", "HOST=empty", overview(), {"placement": {"node_label": "empty"}}),
    ("node labels", "TARN-3165", "HOST=empty", overview(), {"master": {"node_label": "empty"}}),
    (
        "room in the queue",
        "TARN-3145",
        "yarn.scheduler.capacity.root.default.maximum-capacity raised",
        part(most={**WHOLE, "memory-mb": 4096}),
        {},
    ),
    (
        "room in the queue",
        "TARN-3145",
        "user-limit-factor (now 1) raised",
        part(guaranteed={**WHOLE, "memory-mb": 4096}),
        {"replicas": {"min": 3}},
    ),
    (
        "room in the queue",
        "TARN-3145",
        "root.default.accessible-node-labels.gpu.capacity where it is 0",
        queue(partitions=(PART,)),
        {"placement": {"node_label": "gpu"}},
    ),
    ("room in the queue", "TARN-3146", "yarn application -list", part(used=WHOLE), {}),
    ("room in the queue", "TARN-3146", "maximum-applications raised", queue(applications=100), {}),
    (
        "room for a master",
        "TARN-3147",
        "root.default.maximum-am-resource-percent = 0.11 or more (now 0.1)",
        part(masters_used={"memory-mb": 20000}),
        {},
    ),
    (
        "lifetime of applications",
        "TARN-3148",
        "root.default.maximum-application-lifetime = -1",
        queue(max_lifetime_s=86400),
        {},
    ),
    (
        "NodeManagers' recovery",
        "TARN-3160",
        "recovery.enabled = true",
        live(recovery_enabled=None),
        {},
    ),
    (
        "NodeManagers' recovery",
        "TARN-3160",
        "supervised = true",
        live(recovery_supervised="no"),
        {},
    ),
    (
        "time to end",
        "TARN-3162",
        "sleep-delay-before-sigkill.ms = 30000",
        live(sleep__delay__before__sigkill_ms=None),
        {},
    ),
    (
        "memory of containers",
        "TARN-3163",
        "resource.memory.enforced = false",
        live(resource_memory_enabled=None),
        {},
    ),
    (
        "memory of containers",
        "TARN-3163",
        "vmem-check-enabled = false",
        live(resource_memory_enforced="false"),
        {},
    ),
    (
        "Docker on the nodes",
        "TARN-3164",
        "allowed-runtimes = default,docker",
        live(runtime_linux_allowed__runtimes=None),
        {},
    ),
    (
        "Docker on the nodes",
        "TARN-3164",
        "LinuxContainerExecutor in yarn-site.xml of every node",
        live(container__executor_class=DEFAULT),
        {},
    ),
    (
        "Docker on the nodes",
        "TARN-3164",
        "allowed-container-networks = host,none,bridge in",
        live(runtime_linux_docker_allowed__container__networks="bridge"),
        {},
    ),
    (
        "Docker on the nodes",
        "TARN-3164",
        "allowed-container-runtimes = runc,nvidia",
        live(runtime_linux_docker_allowed__container__runtimes=None),
        resources(gpus=1),
    ),
    ("staging directory", "TARN-3138", "runtime.options.staging", hdfs(problem="no"), {}),
    ("staging directory", "TARN-3168", "chmod o+x /user/ann", hdfs(impassable=("/user/ann",)), {}),
    ("staging directory", "TARN-3175", "-safemode get", hdfs(safe_mode=True), {}),
    (
        "staging directory",
        "TARN-3130",
        "up?",
        survey(hdfs=None, hdfs_failure=Finding("TARN-3130", "hdfs", "silent", "Is it up?")),
        {},
    ),
    ("quotas of HDFS", "TARN-3166", "-setQuota NUMBER /q", hdfs(quotas=(Quota("/q", 3),)), {}),
    (
        "quotas of HDFS",
        "TARN-3166",
        "-setSpaceQuota BYTES /q",
        hdfs(quotas=(Quota("/q", None, 9),)),
        {},
    ),
    ("free space of HDFS", "TARN-3167", "DataNodes added", hdfs(free=5), {}),
    (
        "free space of HDFS",
        "TARN-3167",
        "runtime.options.staging",
        hdfs(to_copy=GIB, replication=3),
        {},
    ),
    (
        "models on Hadoop",
        "TARN-2200",
        "mend",
        hdfs(repository=(Finding("TARN-2200", "m", "bad", "mend"),)),
        {},
    ),
)


@pytest.mark.parametrize(
    ("name", "code", "fix", "change", "spec"), BAD, ids=[f"{row[0]}: {row[2]}" for row in BAD]
)
def test_what_is_wrong_has_its_fix(
    name: str, code: str, fix: str, change: Change, spec: dict[str, Any]
) -> None:
    """The code can be looked up, and the next step holds property, value and file, or a command."""
    looked = look(name, case(change(GOOD), spec))
    assert code in CODES
    assert code in [one.code for one in looked.findings]
    assert any(fix in one.next_step for one in looked.findings), looked.findings
    assert "\n" not in looked.seen


def test_every_rule_that_can_find_something_was_made_to() -> None:
    """Of the others nothing can be wrong: they show what is so."""
    shown_only = {"YARN user", "Java here", "cgroups", "delegation tokens", "YARN queue"}
    assert {rule.name for rule in RULES} - {row[0] for row in BAD} == shown_only | {
        "Python of the nodes"
    }


@pytest.mark.parametrize("queue_name", ["ops", "root.off", "nope"])
def test_a_queue_that_is_not_open(queue_name: str) -> None:
    """Closed to the user, stopped, or missing."""
    looked = look("YARN queue", case(settings=YarnSettings(queue=queue_name)))
    (finding,) = looked.findings
    assert finding.code == "TARN-3133"
    assert "root.default" in finding.next_step


def test_an_interpreter_here_and_a_packed_one() -> None:
    """A path without its beginning is wrong; an archive is looked at on Hadoop."""
    assert look("Python of the nodes", case(python="python3")).findings[0].code == "TARN-3139"
    wrong = Finding("TARN-3190", "x", "is not there", "make it")
    there = attrs.evolve(GOOD, python=(wrong,))
    assert look("Python of the nodes", case(there, python="hdfs:///e/t.tar.gz")).findings == (
        wrong,
    )


def test_what_no_node_has_is_no_matter_of_a_property() -> None:
    """Raising the largest container would not help: the nodes are listed, and said once."""
    few = attrs.evolve(LAND, nodes=SMALL_NODES, maximum={**SIZE, "yarn.io/gpu": 1})
    asked = case(attrs.evolve(GOOD, overview=few), resources(gpus=2))
    assert look("resource types", asked).findings == ()
    (finding,) = look("nodes for an instance", asked).findings
    assert "n0 has 65536 MiB, 32 vcores, 1 yarn.io/gpu" in finding.found
    assert "yarn.io/gpu" in finding.next_step


def test_ranks_are_told_with_the_nodes() -> None:
    """All of tensor x pipeline on one node is what a person must know."""
    (finding,) = look("nodes for an instance", case(spec=FOUR_RANKS)).findings
    assert "tensor x pipeline = 8 ranks, all on one node" in finding.where
    assert finding.fatal


def test_a_partition_that_lends_its_nodes_counts() -> None:
    """Nodes of a shared partition take what asks for no label."""
    lending = attrs.evolve(LAND, lent=("gpu",))
    asked = case(attrs.evolve(GOOD, overview=lending), {"replicas": {"min": 6}})
    assert look("nodes for an instance", asked).findings == ()


def test_the_label_of_the_queue_counts_where_none_is_asked() -> None:
    """YARN puts it on whatever names no label."""
    queues = (Queue("root.default", default_label="empty"),)
    asked = case(attrs.evolve(GOOD, overview=attrs.evolve(LAND, queues=queues)))
    assert look("nodes for an instance", asked).seen.startswith("0 nodes")


def test_the_first_master_of_a_queue_is_let_in() -> None:
    """YARN lets one in however little room there is: a warning; beside another one an error."""
    small = part(masters={"memory-mb": 512, "vcores": 1})(GOOD)
    alone = look("room for a master", case(small)).findings[0]
    assert not alone.fatal
    busy = queue(active=1, partitions=(attrs.evolve(PART, masters={"memory-mb": 512}),))(GOOD)
    assert look("room for a master", case(busy)).findings[0].fatal


def test_asks_are_rounded_as_yarn_does() -> None:
    """1025 MiB cost 2048 where YARN grants whole GiB."""
    seen = look("room in the queue", case(spec=resources(memory="1025MiB"))).seen
    assert "needed at least: 3072 MiB" in seen


def test_kerberos_makes_a_wrong_clock_fatal() -> None:
    """Without it the clock only misleads."""
    late = attrs.evolve(GOOD, name_node_clock=Skew(-401, -400))
    assert look("clocks of YARN and HDFS", case(late)).findings[0].fatal
    simple = attrs.evolve(late, client=attrs.evolve(late.client, kerberos=False))
    assert not look("clocks of YARN and HDFS", case(simple)).findings[0].fatal


def test_a_keytab_renews_what_a_ticket_lets_end() -> None:
    """Who submits, how that is proven, and what it is good for."""
    keyed = attrs.evolve(GOOD, client=attrs.evolve(GOOD.client, principal="svc@R"))
    assert look("YARN user", case(keyed)).seen == "ann, by the keytab of svc@R"
    assert "by the keytab of svc@R" in look("delegation tokens", case(keyed)).seen
    assert "no new one starts" in look("delegation tokens", case(GOOD)).seen


def test_many_nodes_have_a_note() -> None:
    """Placement constraints slow a large YARN down; nothing is wrong with it."""
    many = attrs.evolve(LAND, nodes=tuple(YarnNode(f"n{i}", total=SIZE) for i in range(1001)))
    looked = look("placement constraints", case(attrs.evolve(GOOD, overview=many)))
    assert "1001 nodes" in looked.seen
    assert looked.findings == ()


def test_what_docker_asks_for_beside() -> None:
    """Privileged containers and delayed removal are allowed by properties of their own."""
    options = YarnSettings(docker=Docker(privileged=True, delayed_removal=True))
    fixes = [one.next_step for one in look("Docker on the nodes", case(settings=options)).findings]
    assert any("docker.privileged-containers.allowed = true" in fix for fix in fixes)
    assert any("docker.delayed-removal.allowed = true" in fix for fix in fixes)


EMPTY = Survey(client=Client("ann"), failure=Finding("TARN-3130", "yarn", "silent", "look"))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_what_was_not_seen_is_said(rule: Any) -> None:
    """Where nothing answered no rule fails, and none says that all is well with YARN."""
    looked = seen(rule, case(EMPTY))
    own = {"YARN connection", "YARN user", "Hadoop versions", "Java here", "Python of the nodes"}
    others = looked.findings or not looked.known
    assert others or rule.name in own | {"delegation tokens"}
    assert looked.findings or looked.seen
    assert not looked.seen.endswith(".")


def seen(rule: Any, asked: Case) -> CheckResult:
    """Return what a rule says, as doctor shows it."""
    try:
        return rule.look(asked)
    except NotSeen as unseen:
        return CheckResult(str(unseen), known=False)


amounts = st.dictionaries(
    st.sampled_from(["memory-mb", "vcores", "yarn.io/gpu"]), st.integers(0, 2**20)
)


@given(have=amounts, gpus=st.integers(0, 9), memory=st.integers(1, 2**20))
def test_a_node_is_found_wanting_exactly_when_it_is(
    have: dict[str, int], gpus: int, memory: int
) -> None:
    """An ask is refused for the nodes if, and only if, no node has all of it."""
    maximum = dict.fromkeys(SIZE, 2**40)
    nodes = (YarnNode("n", total=have), YarnNode("away", "LOST", total=maximum))
    yarn = attrs.evolve(GOOD, overview=attrs.evolve(LAND, nodes=nodes, maximum=maximum))
    asked = case(yarn, {**resources(memory=f"{memory}MiB", gpus=gpus, vcores=1)})
    fits = (
        have.get("memory-mb", 0) >= memory
        and have.get("vcores", 0) >= 1
        and have.get("yarn.io/gpu", 0) >= gpus
    )
    found = [
        one
        for one in look("nodes for an instance", asked).findings
        if one.where.startswith("instance.resources")
    ]
    assert bool(found) != fits


@given(most=st.integers(0, 2**16), used=st.integers(0, 2**16), count=st.integers(1, 20))
def test_room_is_too_little_exactly_when_it_is(most: int, used: int, count: int) -> None:
    """Never enough is an error, not enough now a warning, and what fits is fine."""
    there = {"memory-mb": most, "vcores": 2**16, "yarn.io/gpu": 9}
    whole = queue(
        user_factor=-1.0,
        partitions=(Partition("", there, there, {"memory-mb": min(used, most)}),),
    )(GOOD)
    spec = {"replicas": {"min": count, "max": 20}, "placement": {"spread": "none"}}
    looked = look("room in the queue", case(whole, spec))
    need = count * 4096 + 1024
    codes = [(one.code, one.fatal) for one in looked.findings]
    if need > most:
        assert codes == [("TARN-3145", True)]
    elif need + min(used, most) > most:
        assert codes == [("TARN-3146", False)]
    else:
        assert codes == []


@given(st.lists(st.text("abc", min_size=1), max_size=20), st.integers(1, 20))
def test_lists_are_short_and_count_the_rest(words: list[str], most: int) -> None:
    """What is not named is counted."""
    text = listed(words, most)
    assert (f"and {len(words) - most} more" in text) == (len(words) > most)


@given(amounts)
def test_amounts_are_shown_without_what_is_nothing(some: dict[str, int]) -> None:
    """Memory first; never an empty text."""
    text = amounts_text(some)
    assert text
    assert all(str(amount) in text for amount in some.values() if amount)
