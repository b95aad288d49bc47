"""What the facts of a node mean: each check says what was seen, and what to do about it."""

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tarn.domain import Choice
from tarn.domain.spec import ResourcesSpec
from tarn.interfaces import CheckResult, Finding
from tarn.testing.context import cluster_spec
from tarn_plugins.runtime.yarn import Docker, YarnSettings
from tarn_plugins.runtime.yarn.probe.messages import Facts, ProbeResult
from tarn_plugins.runtime.yarn.probe.offer import container_checks, probes, subjects

GOOD = {
    "begin": "1", "end": "1", "kernel": "Linux 5", "machine": "x86_64", "glibc": "glibc 2.28",
    "cgroup": "v1", "locale": "UTF-8", "umask": "0022", "user": "bob", "uid": "7",
    "account": "yes", "nofile": "65536", "memlock": "unlimited", "shm": "16777216 16777216",
    "disk": "99999999 99999999", "tmp": "9999999 9999999", "first": "no", "tritonserver": "",
    "gpu_devices": "1", "cuda_visible": "unset", "gpus": "1", "hadoop": "/h/bin/hadoop",
    "hadoop_home": "/h", "hadoop_version": "3.3.6", "reach_1": "yes", "reach_2": "yes",
    "python": "ok", "python_version": "3.11.2", "python_lib": "yes", "tarn_version": "1.0",
    "python_lacks": "", "java": "ok", "java_from": "JAVA_HOME", "java_path": "/j/bin/java",
    "java_version": 'openjdk version "17.0.9"', "port": "4000", "port_heard": "yes",
    "clock": "21000",
}  # fmt: skip
TARGETS = (("ResourceManager", "rm:8030"), ("HDFS NameNode", "nn:8020"))


def spec(**parts):
    return attrs.evolve(cluster_spec(), **parts)


def subject(key="plain ", docker=None, gpus=0, **settings):
    instance = attrs.evolve(spec().instance, resources=ResourcesSpec(gpus=gpus))
    made = YarnSettings(docker=docker, **settings)
    found = subjects(spec(instance=instance), made, "/py", (4000,), "w")
    return {one.key: one for one in found}[key]


def outcome(given=0, **facts):
    return ProbeResult(
        Facts({**GOOD, **facts}), node="nm1", gpus=given, targets=TARGETS, heard=True,
        started_at=20.0, heard_at=22.0,
    )  # fmt: skip


def look(name, came, of=None) -> CheckResult:
    """Return what the check *name* says."""
    found = {
        check.name.partition(" (")[0].removeprefix("node "): check
        for check in container_checks(of or subject(gpus=came.gpus), lambda: came, 60.0)
    }
    return found[name].look()


def only(looked: CheckResult) -> Finding:
    (finding,) = looked.findings
    return finding


def test_a_good_node_has_no_findings():
    """And every check says what it saw."""
    came = outcome(1, tarn_version="unknown")
    looked = [check.look() for check in container_checks(subject(gpus=1), lambda: came, 60.0)]
    assert [each.findings for each in looked] == [()] * 10
    assert all(each.known and each.seen for each in looked)


def test_another_projects_tarn_on_the_nodes_is_an_error():
    """Its package hides TARN's own, whether or not it can be imported."""
    finding = only(look("Python", outcome(tarn_other="0.14.2", tarn_error="ImportError: x")))
    assert finding.fatal
    assert "the package 'tarn' 0.14.2 on nm1: another project's" in finding.found
    assert "/py -m pip uninstall tarn" in finding.next_step


def test_another_tarn_on_the_nodes_is_a_warning():
    """A master of another version may not know the spec."""
    finding = only(look("Python", outcome()))
    assert (finding.code, finding.fatal) == ("TARN-3182", False)
    assert "has tarn 1.0 on nm1, and this client has" in finding.found


@pytest.mark.parametrize(
    ("check", "facts", "code", "words", "fatal"),
    [
        ("Python", {"python": "missing"}, 3182, "no such file on nm1", True),
        ("Python", {"python": "denied"}, 3182, "bob may not run it", True),
        ("Python", {"python": "failed", "python_error": "boom"}, 3182, ": boom", True),
        ("Python", {"python_version": "3.6.8"}, 3182, "Python 3.6.8", True),
        ("Python", {"tarn_error": "ImportError: x"}, 3182, "cannot import tarn on nm1", True),
        ("Python", {"python_lacks": "jpype"}, 3182, "lacks what a master needs", True),
        ("Python", {"python_lib": "no"}, 3182, "no shared libpython", False),
        ("Java", {"java": "none"}, 3183, "has no Java", True),
        ("Java", {"java": "missing"}, 3183, "has no /j/bin/java (JAVA_HOME of the node)", True),
        ("Java", {"java": "failed"}, 3183, "cannot run /j/bin/java", True),
        ("Java", {"java_version": 'java version "1.8.0_392"'}, 3183, "has Java 8 at", True),
        ("Java", {"java_version": 'openjdk version "9"'}, 3183, "has Java 9 at", True),
        ("Hadoop", {"hadoop": ""}, 3184, "HADOOP_HOME = '/h' has no bin/hadoop", True),
        ("Hadoop", {"hadoop": "", "hadoop_home": ""}, 3184, "has no Hadoop client", True),
        ("Hadoop", {"hadoop_error": "no JAVA"}, 3184, "--glob` fails: no JAVA", True),
        ("Hadoop", {"hadoop_version": "3.2.4"}, 3184, "Hadoop 3.2.4; 3.3.0", True),
        ("network", {"reach_1": "no"}, 3187, "no connection to the ResourceManager", True),
        ("network", {"reach_2": "no"}, 3187, "HDFS NameNode at nn:8020", True),
        ("limits", {"nofile": "1024"}, 3185, "may open 1024 files", False),
        ("limits", {"account": "no"}, 3185, "uid 7 has no account", False),
        ("space", {"shm": "65536 60000"}, 3185, "shared memory has 64 MiB", False),
        ("space", {"disk": "99999999 1024"}, 3185, "1 MiB are free where containers", False),
        ("space", {"tmp": "9999 1024"}, 3185, "temporary files", False),
        ("clock", {"clock": "83000"}, 3185, "at least 61 s ahead of", False),
        ("clock", {"clock": "15000"}, None, "", False),
        ("clock", {"clock": "1"}, 3185, "at least 20 s behind", False),
        ("clock", {"clock": "999000"}, 3185, "at least 977 s ahead", True),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_fix(check, facts, code, words, fatal):
    """One finding, which says where, what and what to do."""
    looked = look(check, outcome(**facts))
    findings = [each for each in looked.findings if "and this client has" not in each.found]
    if code is None:
        assert findings == []
        return
    (finding,) = findings
    assert finding.code == f"TARN-{code}"
    assert words in finding.found
    assert finding.fatal is fatal
    assert finding.next_step


def test_java_8_has_two_ways_out():
    """Another Java on the nodes, or one that is brought along."""
    step = only(look("Java", outcome(java_version='java version "1.8.0_392"'))).next_step
    assert "runtime.options.java_home" in step
    assert "tarn pack" in step


@pytest.mark.parametrize(
    ("facts", "words", "fatal"),
    [
        ({"gpus": "2"}, "sees 2: GPUs of others are not hidden", False),
        ({"gpus": "0"}, "was given 1 of yarn.io/gpu sees 0", True),
        ({"gpus": "2", "cuda_visible": "1"}, "", False),
        ({"gpus": "2", "cuda_visible": "0,1"}, "sees 2", False),
        ({"gpus": "1", "cuda_visible": ""}, "sees 0", True),
        ({"gpus": "none", "gpu_devices": "0"}, "sees 0", True),
        ({"gpus": "failed", "gpu_error": "mismatch"}, "nvidia-smi fails in a container", True),
    ],
)
def test_gpus_are_held_against_the_allocation(facts, words, fatal):
    """field.md 54: excluded GPUs that are still visible."""
    looked = look("GPUs", outcome(1, **facts))
    if not words:
        assert looked.findings == ()
        return
    assert words in only(looked).found
    assert (only(looked).code, only(looked).fatal) == ("TARN-3186", fatal)


def test_gpus_that_never_came_are_unknown():
    """Nothing is wrong with a cluster whose GPUs are in use."""
    came = attrs.evolve(outcome(), gpus_wait="of 3 nodes none has 1 yarn.io/gpu free")
    looked = look("GPUs", came, subject(gpus=1))
    assert (looked.known, looked.findings) == (False, ())


def test_a_port_that_is_not_reached_names_host_port_and_three_checks():
    """field.md 45."""
    came = attrs.evolve(outcome(port_heard="no"), heard=False, call_error="timed out")
    finding = only(look("master's port", came))
    assert (finding.code, finding.where, finding.fatal) == ("TARN-3189", "nm1:4000", False)
    assert "timed out" in finding.found
    for check in ("getent hosts nm1", "nc -vz nm1 4000", "api.port", "proxy"):
        assert check in finding.next_step
    untried = attrs.evolve(outcome(port=""), heard=False)
    assert not look("master's port", untried).known


def test_one_of_two_is_enough():
    """A NameNode beside is a warning; a ResourceManager that is a standby listens to no master."""
    three = (*TARGETS, ("HDFS NameNode", "nn2:8020"))
    came = attrs.evolve(outcome(reach_2="no", reach_3="yes"), targets=three)
    assert not only(look("network", came)).fatal
    two = (("ResourceManager", "rm1:8030"), ("ResourceManager", "rm2:8030"))
    assert look("network", attrs.evolve(outcome(reach_1="no"), targets=two)).findings == ()
    neither = attrs.evolve(outcome(reach_1="no", reach_2="no"), targets=two)
    assert [each.fatal for each in look("network", neither).findings] == [True, True]


def test_without_a_container_one_check_says_why():
    """The others point to it."""
    failure = Finding("TARN-3180", "queue", "no room", "wait")
    came = ProbeResult(failure=failure)
    for check in container_checks(subject(gpus=1), lambda: came, 60.0):
        looked = check.look()
        if check.name.startswith("node container"):
            assert looked.findings == (failure,)
        else:
            assert (looked.known, looked.findings) == (False, ())
            assert "node container (default partition)" in looked.seen


IMAGE = "image "
IN_DOCKER = {"first": "yes", "tritonserver": "/opt/tritonserver/bin/tritonserver"}


@pytest.mark.parametrize(
    ("came", "words"),
    [
        (outcome(first="no"), "was started without Docker"),
        (outcome(**{**IN_DOCKER, "tritonserver": ""}), "has no tritonserver on its PATH"),
        (
            ProbeResult(failure=Finding("TARN-3181", "c1", "image not found", "mend")),
            "image not found",
        ),
    ],
)
def test_an_image_that_cannot_serve_is_named(came, words):
    """Whether YARN starts it at all, and what it sees."""
    finding = only(look("Docker", came, subject(IMAGE, Docker())))
    assert (finding.code, finding.fatal) == ("TARN-3188", True)
    assert words in finding.found


def test_an_image_that_serves_is_shown():
    """And one that is still fetched is unknown."""
    one = subject(IMAGE, Docker())
    looked = look("Docker", outcome(**IN_DOCKER), one)
    assert looked.findings == ()
    assert "/opt/tritonserver/bin/tritonserver" in looked.seen
    late = attrs.evolve(ProbeResult(), untold="still be fetching the image")
    assert look("Docker", late, one) == CheckResult("still be fetching the image", known=False)


def test_each_label_of_the_spec_is_tried_once():
    """The master's and the instances', and the image where there is one."""
    named = spec(
        placement=attrs.evolve(spec().placement, node_label="gpu"),
        instance=attrs.evolve(spec().instance, resources=ResourcesSpec(gpus=2)),
    )
    plain = list(subjects(named, YarnSettings(docker=None), "/py", (1,), "w"))
    assert [(one.label, one.master, one.instances, one.gpus) for one in plain] == [
        ("", True, False, 0),
        ("gpu", False, True, 2),
    ]
    assert [one.order.ports for one in plain] == [(1,), ()]
    docked = list(subjects(named, YarnSettings(), "/py", (1,), "w"))
    assert [(one.where, one.gpus, one.order.python) for one in docked] == [
        ("default partition", 0, "/py"),
        ("label gpu", 0, ""),
        ("image, label gpu", 2, ""),
    ]
    assert docked[2].order.outer["YARN_CONTAINER_RUNTIME_TYPE"] == "docker"


def test_names_are_unique_and_wrong_options_are_others_business(tmp_path):
    """Nothing is opened before a check looks."""
    from tarn.testing.context import client_context  # noqa: PLC0415

    context = client_context(tmp_path)
    names = [check.name for check in probes(on_yarn(), context)]
    assert len(set(names)) == len(names) > 10
    assert list(probes(on_yarn(docker={"network": "$(x)"}), context)) == []
    assert list(probes(on_yarn(nonsense=1), context)) == []


def on_yarn(**options):
    return spec(runtime=Choice("yarn", options))


@settings(deadline=None)
@given(
    st.dictionaries(st.sampled_from(sorted(GOOD)), st.text(max_size=12)),
    st.integers(0, 2),
    st.sampled_from(["plain ", IMAGE]),
)
def test_no_fact_breaks_a_check(facts, gpus, key):
    """Whatever a node says, each check has words for it, and a fix for what is wrong."""
    one = subject(key, Docker() if key == IMAGE else None, gpus)
    for check in container_checks(one, lambda: outcome(gpus, **facts), 60.0):
        looked = check.look()
        assert looked.seen or looked.findings
        assert all(each.found and each.next_step and each.where for each in looked.findings)
