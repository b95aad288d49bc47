"""A YARN with faults that were seeded: `tarn doctor` names each, and what would correct it.

Every row is one fault of a real YARN, HDFS or client. Faults that do not disturb one another share
a *world*: one configuration, for which YARN starts again once.
"""

import contextlib
import http.server
import json
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from email.utils import formatdate
from pathlib import Path
from typing import Any

import attrs
import pytest
from house import House
from servers.yarn import Hadoop, context

from tarn.doctor import CheckState, OfferedCheck, Result, examine
from tarn.domain import CODES, ClusterSpec
from tarn.interfaces import ClientContext
from tarn.plain import structure
from tarn_plugins.cli.sandbox import options
from tarn_plugins.runtime.yarn import YarnSettings
from tarn_plugins.runtime.yarn.client.deployer import YarnDeployer
from tarn_plugins.runtime.yarn.client.hadoop_child import HadoopChild, start_child
from tarn_plugins.runtime.yarn.doctor.offer import checks

pytestmark = [pytest.mark.yarn, pytest.mark.breaks, pytest.mark.timeout(180)]

ROOT = "/tmp/tarn-misconfigured"
CAPACITY = "yarn.scheduler.capacity"
SCHEDULER = "org.apache.hadoop.yarn.server.resourcemanager.scheduler"
ANN = {"HADOOP_USER_NAME": "ann"}
"""Somebody who is not the superuser: nothing is forbidden to that one."""


def queue(name: str, **properties: str) -> dict[str, str]:
    """Return the properties of a queue that is open to everybody, but for *properties*."""
    prefix = f"{CAPACITY}.root.{name}"
    plain = {"capacity": "2", "maximum-capacity": "100", "acl_submit_applications": "*"}
    given = {key.replace("__", "-"): value for key, value in properties.items()}
    return {f"{prefix}.{key}": value for key, value in {**plain, **given}.items()}


NAMES = ("stopped", "closed", "tiny", "cramped", "stingy", "mortal", "blind", "dark")
QUEUES: dict[str, str] = {
    "yarn.acl.enable": "true",
    "yarn.admin.acl": "root",
    f"{CAPACITY}.root.acl_submit_applications": " ",
    f"{CAPACITY}.root.queues": ",".join(("default", "batch", *NAMES)),
    f"{CAPACITY}.root.default.capacity": "80",
    f"{CAPACITY}.root.default.acl_submit_applications": "*",
    f"{CAPACITY}.root.batch.capacity": "4",
    **queue("stopped", state="STOPPED"),
    **queue("closed", acl_submit_applications=" "),
    **queue("tiny", maximum__capacity="2"),
    **queue("cramped", user__limit__factor="1"),
    **queue("stingy", maximum__am__resource__percent="0.01", user__limit__factor="100"),
    **queue("mortal", maximum__application__lifetime="600", user__limit__factor="100"),
    **queue("blind", accessible__node__labels=" "),
    **queue("dark", accessible__node__labels="*"),
}
NODE = {
    "yarn.nodemanager.recovery.supervised": "false",
    "yarn.nodemanager.vmem-check-enabled": "true",
    "yarn.nodemanager.sleep-delay-before-sigkill.ms": "1000",
}
CARELESS = {
    "yarn.resource-types": "yarn.io/gpu,nvidia.com/mig",
    "yarn.resource-types.yarn.io/gpu.maximum-allocation": "0",
    "yarn.scheduler.maximum-allocation-mb": "1024",
    "yarn.scheduler.maximum-allocation-vcores": "2",
    "yarn.resourcemanager.placement-constraints.handler": "disabled",
    "yarn.resourcemanager.work-preserving-recovery.enabled": "false",
    "yarn.resourcemanager.am.max-attempts": "1",
    "yarn.log-aggregation-enable": "false",
}
MEMORY_ONLY = {
    "yarn.resource-types": "",
    f"{CAPACITY}.resource-calculator": (
        "org.apache.hadoop.yarn.util.resource.DefaultResourceCalculator"
    ),
    "yarn.resourcemanager.recovery.enabled": "false",
}
FAIR = {
    "yarn.resourcemanager.scheduler.class": f"{SCHEDULER}.fair.FairScheduler",
}
WORLDS: dict[str, tuple[Mapping[str, str], Mapping[str, str]]] = {
    "as it is": ({}, {}),
    "careless": (CARELESS, {}),
    "fair": (FAIR, {}),
    "memory only": (MEMORY_ONLY, {}),
    "queues": (QUEUES, NODE),
}
"""Name -> properties of the ResourceManager, and those of the node nm3."""


@attrs.frozen
class Seed:
    """One fault, and what doctor is to say."""

    fault: str
    """In words; where it stands in a property, that property."""
    check: str
    code: str
    fix: str
    """A part of the next step."""
    spec: Mapping[str, Any] = attrs.field(factory=dict)
    options: Mapping[str, Any] = attrs.field(factory=dict)
    environ: Mapping[str, str] = attrs.field(factory=dict)


def resources(**parts: Any) -> dict[str, Any]:
    return {"instance": {"resources": {"vcores": 1, "memory": "512MiB", **parts}}}


def label(name: str) -> dict[str, Any]:
    return {"placement": {"node_label": name}}


SEEDS: dict[str, tuple[Seed, ...]] = {
    "as it is": (
        Seed(
            "tensor x pipeline = 4 GPUs, and each node has one",
            "nodes for an instance",
            "TARN-3144",
            "nodes with more",
            {
                "instance": {
                    "resources": {"memory": "512MiB", "gpus": 4},
                    "parallelism": {"tensor": 2, "pipeline": 2},
                }
            },
        ),
        Seed(
            "more instances than nodes",
            "nodes for an instance",
            "TARN-3144",
            "placement.spread = none",
            {"replicas": {"min": 9, "max": 9}},
        ),
        Seed("no such queue", "YARN queue", "TARN-3133", "root.batch", {}, {"queue": "nope"}),
        Seed(
            "yarn.nodemanager.container-executor.class = DefaultContainerExecutor",
            "Docker on the nodes",
            "TARN-3164",
            "yarn.nodemanager.container-executor.class = org.apache.hadoop.yarn.server."
            "nodemanager.LinuxContainerExecutor",
            {},
            {"docker": {}},
        ),
        Seed(
            "a quota of names on the staging directory",
            "quotas of HDFS",
            "TARN-3166",
            f"hdfs dfsadmin -setQuota NUMBER {ROOT}/few",
            {},
            {"staging": f"{ROOT}/few/.tarn"},
        ),
        Seed(
            "a quota of space on the staging directory",
            "quotas of HDFS",
            "TARN-3166",
            f"hdfs dfsadmin -setSpaceQuota BYTES {ROOT}/small",
            {},
            {"staging": f"{ROOT}/small"},
        ),
        Seed(
            "a staging directory of somebody else",
            "staging directory",
            "TARN-3138",
            "runtime.options.staging",
            {},
            {"staging": f"{ROOT}/theirs"},
            ANN,
        ),
        Seed(
            "a staging directory that the nodes cannot pass",
            "staging directory",
            "TARN-3168",
            f"hdfs dfs -chmod o+x {ROOT}/private",
            {},
            {"staging": f"{ROOT}/private"},
        ),
        Seed(
            "a model repository that only its owner reads",
            "models on Hadoop",
            "TARN-3171",
            f"hdfs dfs -setfacl -R -m user:ann:r-x hdfs://{ROOT}/secret",
            {"models": {"repository": f"hdfs://{ROOT}/secret"}},
            {},
            ANN,
        ),
        Seed(
            "an interpreter without a whole path",
            "Python of the nodes",
            "TARN-3139",
            "the absolute path",
            {},
            {"python": "python3"},
        ),
    ),
    "careless": (
        Seed(
            "yarn.scheduler.maximum-allocation-mb = 1024",
            "largest container",
            "TARN-3134",
            "yarn.scheduler.maximum-allocation-mb = 2048 or more in yarn-site.xml",
            resources(memory="2GiB"),
        ),
        Seed(
            "yarn.scheduler.maximum-allocation-vcores = 2",
            "largest container",
            "TARN-3134",
            "yarn.scheduler.maximum-allocation-vcores = 4 or more in yarn-site.xml",
            resources(vcores=4),
        ),
        Seed(
            "yarn.resource-types.yarn.io/gpu.maximum-allocation = 0",
            "resource types",
            "TARN-3135",
            "yarn.resource-types.yarn.io/gpu.maximum-allocation = 1 or more in resource-types.xml",
            resources(gpus=1),
        ),
        Seed(
            "a resource type that no node has",
            "nodes for an instance",
            "TARN-3144",
            "the plugin of the resource type",
            resources(gpus=1, gpu_resource="nvidia.com/mig"),
        ),
        Seed(
            "yarn.resourcemanager.placement-constraints.handler = disabled",
            "placement constraints",
            "TARN-3140",
            "yarn.resourcemanager.placement-constraints.handler = scheduler in yarn-site.xml",
        ),
        Seed(
            "yarn.resourcemanager.work-preserving-recovery.enabled = false",
            "ResourceManager's recovery",
            "TARN-3149",
            "yarn.resourcemanager.work-preserving-recovery.enabled = true",
        ),
        Seed(
            "yarn.resourcemanager.am.max-attempts = 1",
            "attempts of a master",
            "TARN-3137",
            "yarn.resourcemanager.am.global.max-attempts) = 10 in yarn-site.xml",
        ),
        Seed(
            "yarn.log-aggregation-enable = false",
            "logs of what ended",
            "TARN-3161",
            "yarn.log-aggregation-enable = true in yarn-site.xml",
        ),
    ),
    "fair": (
        Seed(
            "a fair scheduler without the policy drf",
            "resource calculator",
            "TARN-3143",
            "<schedulingPolicy>drf</schedulingPolicy> for the queue in fair-scheduler.xml",
        ),
    ),
    "memory only": (
        Seed(
            "yarn.resource-types without yarn.io/gpu",
            "resource types",
            "TARN-3135",
            "added to yarn.resource-types in resource-types.xml",
            resources(gpus=1),
        ),
        Seed(
            "yarn.scheduler.capacity.resource-calculator = DefaultResourceCalculator",
            "resource calculator",
            "TARN-3143",
            "DominantResourceCalculator in capacity-scheduler.xml",
        ),
        Seed(
            "yarn.resourcemanager.recovery.enabled = false",
            "ResourceManager's recovery",
            "TARN-3149",
            "yarn.resourcemanager.recovery.enabled = true in yarn-site.xml",
        ),
    ),
    "queues": (
        Seed(
            "root.stopped.state = STOPPED",
            "YARN queue",
            "TARN-3133",
            f"{CAPACITY}.root.stopped.state = RUNNING in capacity-scheduler.xml",
            {},
            {"queue": "stopped"},
        ),
        Seed(
            "root.closed.acl_submit_applications without ann",
            "YARN queue",
            "TARN-3133",
            f"ann added to {CAPACITY}.root.closed.acl_submit_applications",
            {},
            {"queue": "closed"},
            ANN,
        ),
        Seed(
            "root.tiny.maximum-capacity = 2",
            "room in the queue",
            "TARN-3145",
            f"{CAPACITY}.root.tiny.maximum-capacity raised",
            {},
            {"queue": "tiny"},
        ),
        Seed(
            "root.cramped.user-limit-factor = 1",
            "room in the queue",
            "TARN-3145",
            f"{CAPACITY}.root.cramped.user-limit-factor (now 1) raised",
            {},
            {"queue": "root.cramped"},
        ),
        Seed(
            "root.stingy.maximum-am-resource-percent = 0.01",
            "room for a master",
            "TARN-3147",
            f"{CAPACITY}.root.stingy.maximum-am-resource-percent = ",
            {},
            {"queue": "stingy"},
        ),
        Seed(
            "root.mortal.maximum-application-lifetime = 600",
            "lifetime of applications",
            "TARN-3148",
            f"{CAPACITY}.root.mortal.default-application-lifetime = -1",
            {},
            {"queue": "mortal"},
        ),
        Seed(
            "root.blind.accessible-node-labels without gpu",
            "node labels",
            "TARN-3136",
            "gpu added to yarn.scheduler.capacity.root.blind.accessible-node-labels",
            label("gpu"),
            {"queue": "blind"},
        ),
        Seed(
            "root.dark has no capacity of the label gpu",
            "room in the queue",
            "TARN-3145",
            f"{CAPACITY}.root.dark.accessible-node-labels.gpu.capacity where it is 0",
            label("gpu"),
            {"queue": "dark"},
        ),
        Seed(
            "a label without nodes",
            "node labels",
            "TARN-3165",
            "yarn rmadmin -replaceLabelsOnNode",
            label("empty"),
        ),
        Seed("no such label", "node labels", "TARN-3136", "default partition", label("nope")),
        Seed(
            "yarn.nodemanager.recovery.supervised = false on one node",
            "NodeManagers' recovery",
            "TARN-3160",
            "yarn.nodemanager.recovery.supervised = true",
        ),
        Seed(
            "yarn.nodemanager.vmem-check-enabled = true on one node",
            "memory of containers",
            "TARN-3163",
            "yarn.nodemanager.vmem-check-enabled = false in yarn-site.xml of every node",
        ),
        Seed(
            "yarn.nodemanager.sleep-delay-before-sigkill.ms = 1000",
            "time to end",
            "TARN-3162",
            "yarn.nodemanager.sleep-delay-before-sigkill.ms = 30000",
        ),
    ),
}


@attrs.define
class DoctorInProcess:
    """Asks doctor in this process; a child process for each user serves a world to its end."""

    hadoop: Hadoop
    world: str = ""
    _children: dict[str, HadoopChild] = attrs.field(factory=dict, init=False)

    def enter(self, world: str) -> None:
        """Have YARN as *world* wants it; nothing happens where it is so."""
        if world != self.world:
            self.close()  # a client keeps the resource types that it was told first
            _make(self.hadoop, world)
            self.world = world

    def context(self, environ: Mapping[str, str] | None = None) -> ClientContext:
        plain = context()
        return attrs.evolve(
            plain, environ={**plain.environ, **self.hadoop.environ, **(environ or {})}
        )

    def child(self, spec: ClusterSpec, around: ClientContext) -> HadoopChild:
        """Return the child for a user and a staging directory, the two things a child is told."""
        settings, _ = structure(YarnSettings, spec.runtime.options)
        assert settings is not None
        key = f"{around.environ.get('HADOOP_USER_NAME')} {settings.staging}"
        if key not in self._children:
            self._children[key] = start_child(settings, around)
        return self._children[key]

    def results(self, seed: Seed) -> dict[str, Result]:
        """Return what every check says."""
        around, spec = self.context(seed.environ), spec_of(seed)
        return looked_at(spec, around, self.child(spec, around))

    def close(self) -> None:
        for child in self._children.values():
            child.close()
        self._children.clear()


def spec_of(seed: Seed) -> ClusterSpec:
    options = {"docker": None, "staging": f"{ROOT}/shared", **seed.options}
    whole = {
        "name": "seeded",
        "models": {"repository": "/models"},
        "runtime": {"use": "yarn", "options": options},
        **resources(),
        **seed.spec,
    }
    made, problems = structure(ClusterSpec, whole)
    assert made is not None, problems
    return made


def looked_at(
    spec: ClusterSpec, around: ClientContext, child: HadoopChild | None = None
) -> dict[str, Result]:
    """Return what every check says, by its name; without a *child* as a stranger's look is."""
    offered = [OfferedCheck("yarn", check) for check in checks(spec, around, child)]
    return {one.check: one for one in examine(offered, around.clock)}


@pytest.fixture(scope="module")
def desk(shared_hadoop: Hadoop) -> Iterator[DoctorInProcess]:
    """What stands on HDFS and in the labels next to the worlds; all is gone in the end."""
    shared_hadoop.up()
    for name in ("shared", "few", "small", "theirs", "private", "secret/echo/1"):
        shared_hadoop.hdfs_make(f"{ROOT}/{name}", "755")
    shared_hadoop.hdfs_set(f"{ROOT}/few", "SETQUOTA", namespacequota=8)
    shared_hadoop.hdfs_set(f"{ROOT}/small", "SETQUOTA", storagespacequota=1 << 20)
    shared_hadoop.hdfs_set(f"{ROOT}/private", "SETPERMISSION", permission="700")
    shared_hadoop.hdfs_set(f"{ROOT}/secret", "SETPERMISSION", permission="700")
    one = DoctorInProcess(shared_hadoop)
    yield one
    one.enter("as it is")
    one.close()
    shared_hadoop.hdfs_remove(ROOT)


def _make(hadoop: Hadoop, name: str) -> None:
    """Have YARN as the world *name* wants it."""
    manager, node = WORLDS[name]
    hadoop.configure(manager, nm3=node)
    labelled = any(one.get("nodeLabels") for one in hadoop.nodes())
    if name == "queues" and not labelled:
        made = [{"name": each, "exclusivity": True} for each in ("gpu", "empty")]
        hadoop.rest.post("add-node-labels", {"nodeLabelInfo": made})
        _put(hadoop, "gpu")
    elif name != "queues" and labelled:
        _put(hadoop, "")


def _put(hadoop: Hadoop, label: str) -> None:
    """Put nm3 into the partition *label*."""
    port = options.PORTS["nm"]["rpc"]
    names = [label] if label else []
    body = {"nodeToLabels": [{"nodeId": f"{hadoop.host('nm3')}:{port}", "labels": names}]}
    hadoop.rest.post("replace-node-to-labels", body)


@pytest.mark.parametrize(
    ("world", "seed"),
    [
        pytest.param(world, seed, id=f"{world}: {seed.fault}")
        for world, seeds in SEEDS.items()
        for seed in seeds
    ],
)
def test_what_is_seeded_is_named_with_its_fix(
    desk: DoctorInProcess, world: str, seed: Seed
) -> None:
    """The check says so, with the right code, and its next step holds the fix."""
    desk.enter(world)
    print(f"seeded: {seed.fault} {seed.spec or ''} {seed.options or ''}")
    found = desk.results(seed)[seed.check]
    print(f"{found.state}: {found.seen}", *found.findings, sep="\n  ")
    _holds(found, seed)


def _holds(found: Result, seed: Seed) -> None:
    assert found.state in (CheckState.WARNING, CheckState.ERROR)
    steps = [one.next_step for one in found.findings if one.code == seed.code]
    assert any(seed.fix in step for step in steps), found.findings


@pytest.mark.parametrize("world", ["as it is"])
def test_nothing_is_wrong_where_nothing_was_seeded(desk: DoctorInProcess, world: str) -> None:
    """But for Hadoop's own quarter of a second before a container is killed.

    And a checkout below /tmp or /home looks like one that only this machine has.
    """
    desk.enter(world)
    results = desk.results(Seed("nothing", "", "", ""))
    wrong = {name for name, one in results.items() if one.findings}
    here = {"Python of the nodes"} if Path(sys.executable).parts[1] in ("home", "tmp") else set()
    assert wrong == {"time to end"} | here
    assert {name for name, one in results.items() if one.state is CheckState.UNKNOWN} == {"cgroups"}


@pytest.mark.parametrize("world", ["careless"])
def test_a_start_is_refused_in_the_words_of_doctor(desk: DoctorInProcess, world: str) -> None:
    """What `tarn up` looks at is a part of what doctor does: each rule has one home."""
    desk.enter(world)
    seed = Seed("too large", "", "", "", resources(memory="2GiB", vcores=4, gpus=1))
    spec, around = spec_of(seed), desk.context()
    settings, _ = structure(YarnSettings, spec.runtime.options)
    assert settings is not None
    refused = YarnDeployer(settings, around, desk.child(spec, around)).check(spec)
    said = {one for result in desk.results(seed).values() for one in result.findings}
    assert {"TARN-3134", "TARN-3135", "TARN-3137", "TARN-3140"} <= {one.code for one in refused}
    assert set(refused) <= said


@pytest.mark.parametrize("world", ["queues"])
def test_the_command_says_it_and_fails(desk: DoctorInProcess, world: str, tmp_path: Path) -> None:
    """`tarn doctor` on a YARN whose queue is stopped: exit 1, the fix, and the rest unharmed."""
    desk.enter(world)
    house = House(tmp_path)
    house.environ |= desk.hadoop.environ
    options = {"docker": None, "staging": f"{ROOT}/shared", "queue": "stopped"}
    house.spec("seeded", runtime={"use": "yarn", "options": options}, **resources())
    done = house.tarn("doctor", "-f", "seeded.yaml", "-o", "json")
    rows = {row["check"]: row for row in json.loads(done.stdout)}
    assert done.returncode == 1
    assert rows["YARN queue"]["state"] == "error"
    (finding,) = rows["YARN queue"]["findings"]
    assert finding["code"] == "TARN-3133"
    assert "yarn rmadmin -refreshQueues" in finding["next_step"]
    assert rows["YARN connection"]["state"] == "ok"


@pytest.mark.parametrize("world", ["as it is"])
def test_a_start_without_docker_on_the_nodes_submits_nothing(
    desk: DoctorInProcess, world: str, tmp_path: Path
) -> None:
    """It is refused in doctor's words; too few nodes are a note of the same look."""
    desk.enter(world)
    house = House(tmp_path)
    house.environ |= desk.hadoop.environ
    before = {app["id"] for app in desk.hadoop.apps()}
    options = {"docker": {}, "staging": f"{ROOT}/shared"}
    size = {"min": 4, "max": 4}
    house.spec("dock", runtime={"use": "yarn", "options": options}, replicas=size, **resources())
    done = house.tarn("up", "-f", "dock.yaml")
    assert done.returncode == 1
    assert "TARN-3164" in done.stderr
    assert "LinuxContainerExecutor in yarn-site.xml of every node" in done.stderr
    assert "only 3 nodes can hold an instance" in done.stderr
    assert {app["id"] for app in desk.hadoop.apps()} == before
    told = house.tarn("up", "-f", "dock.yaml", "--dry-run", "-o", "json")
    found = {(one["code"], one["fatal"]) for one in json.loads(told.stdout)["findings"]}
    assert {("TARN-3164", True), ("TARN-3144", False)} <= found


@pytest.mark.parametrize("world", ["as it is"])
def test_a_directory_without_configuration_is_named(
    desk: DoctorInProcess, world: str, tmp_path: Path
) -> None:
    """Hadoop takes its defaults then, and asks this machine itself."""
    desk.enter(world)
    (tmp_path / "empty").mkdir()
    around = desk.context({"HADOOP_CONF_DIR": str(tmp_path / "empty")})
    classpath = str(desk.hadoop.directory / "lib" / "*")
    environ = {k: v for k, v in around.environ.items() if k != "HADOOP_HOME"}
    environ |= {"CLASSPATH": classpath, "PATH": "/usr/bin:/bin"}
    spec = spec_of(Seed("no configuration", "", "", ""))
    results = looked_at(spec, attrs.evolve(around, environ=environ))
    (finding,) = results["YARN connection"].findings
    assert (finding.code, finding.fatal) == ("TARN-3130", True)
    assert (
        "Set HADOOP_CONF_DIR to the directory with the cluster's yarn-site.xml" in finding.next_step
    )
    assert results["YARN queue"].state is CheckState.UNKNOWN


@pytest.mark.parametrize("world", ["as it is"])
def test_an_old_java_here_is_named_once(desk: DoctorInProcess, world: str, tmp_path: Path) -> None:
    """One check tells it; the others say where to read it."""
    desk.enter(world)
    (tmp_path / "release").write_text('JAVA_VERSION="1.8.0_392"\n')
    seed = Seed("Java 8", "", "", "", {}, {"java_home": str(tmp_path)})
    results = looked_at(spec_of(seed), desk.context())
    (finding,) = results["Java here"].findings
    assert finding.code == "TARN-3122"
    assert "runtime.options.java_home" in finding.next_step
    others = {name: one for name, one in results.items() if name != "Java here"}
    assert {one.state for one in others.values()} == {CheckState.UNKNOWN}
    assert all("see 'Java here'" in one.seen for one in others.values())


@pytest.mark.parametrize("world", ["as it is"])
def test_a_clock_that_is_wrong_is_told(desk: DoctorInProcess, world: str, tmp_path: Path) -> None:
    """The ResourceManager's web server, seen through something that writes another time."""
    desk.enter(world)
    place = tmp_path / "late"
    place.mkdir()
    with _late_by(400, desk.hadoop) as address:
        around = desk.context({"HADOOP_CONF_DIR": _configured(desk.hadoop, place, address)})
        results = looked_at(spec_of(Seed("clock", "", "", "")), around)
    (finding,) = results["clocks of YARN and HDFS"].findings
    assert finding.code in CODES
    assert "behind" in finding.found
    assert "NTP" in finding.next_step


@pytest.mark.parametrize("world", ["as it is"])
def test_a_resource_manager_that_is_down_is_told_and_hdfs_is_looked_at(
    desk: DoctorInProcess, world: str
) -> None:
    """One finding with the address; what does not depend on YARN is still seen."""
    desk.enter(world)
    desk.hadoop.kill("rm")
    try:
        results = looked_at(spec_of(Seed("down", "", "", "")), desk.context())
    finally:
        desk.hadoop.start("rm")
        desk.hadoop.wait_nodes(desk.hadoop.options.nodes, 120)
    (finding,) = results["YARN connection"].findings
    assert (finding.code, finding.fatal) == ("TARN-3130", True)
    assert desk.hadoop.host("rm") in finding.found
    assert "that YARN is up" in finding.next_step
    assert results["room in the queue"].state is CheckState.UNKNOWN
    assert results["staging directory"].state is CheckState.OK


def _configured(hadoop: Hadoop, directory: Path, address: str) -> str:
    """Return a client's configuration in which the RM's web server is at *address*."""
    place = Path(hadoop.environ["HADOOP_CONF_DIR"])
    for name in ("core-site.xml", "hdfs-site.xml"):
        (directory / name).write_text((place / name).read_text())
    port = options.PORTS["rm"]["http"]
    text = (place / "yarn-site.xml").read_text()
    (directory / "yarn-site.xml").write_text(text.replace(f"{hadoop.host('rm')}:{port}", address))
    return str(directory)


@contextlib.contextmanager
def _late_by(seconds: int, hadoop: Hadoop) -> Iterator[str]:
    """Serve the RM's web pages, with the time of *seconds* ago; yields ``host:port``."""
    base = f"http://{hadoop.host('rm')}:{options.PORTS['rm']['http']}"

    class Late(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = urllib.request.Request(base + self.path, headers={"Accept": "application/json"})
            with urllib.request.urlopen(asked, timeout=10) as answer:
                data = answer.read()
            self.send_response_only(200)
            self.send_header("Date", formatdate(time.time() - seconds, usegmt=True))
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Late)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
