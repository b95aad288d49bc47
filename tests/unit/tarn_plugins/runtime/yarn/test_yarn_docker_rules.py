"""What the settings of Docker may say, and which contradict one another."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarn.domain.spec import PlacementSpec, ResourcesSpec, TritonSpec
from tarn.testing.context import cluster_spec
from tarn.triton.lint import Stubs
from tarn_plugins.runtime.yarn import Docker
from tarn_plugins.runtime.yarn.client import checks
from tarn_plugins.runtime.yarn.client.checks import YarnOverview
from tarn_plugins.runtime.yarn.launch.docker import mount, notes, problems
from tarn_plugins.runtime.yarn.launch.instance import wanted_ports

HDFS, PATH = "hdfs://nn/models", "/mnt/models"


def found(docker=None, *, repository=HDFS, **triton):
    one = TritonSpec(**triton)
    docker = docker or Docker()
    return [
        (finding.where.removeprefix("runtime.options."), finding.found)
        for finding in problems(docker, one, repository, filter(None, wanted_ports(one)))
    ]


@pytest.mark.parametrize(
    "image",
    [
        "nvcr.io/nvidia/tritonserver:24.09-py3", "tritonserver", "localhost:5000/a_b/c-d:V1.0",
        "a/b@sha256:" + 64 * "a", "reg.example.org/x/y/z:1@sha256:" + 12 * "0",
    ],
)  # fmt: skip
def test_images_that_yarn_takes(image):
    """With a registry, a port, a tag, a digest."""
    assert found(image=image) == []


@pytest.mark.parametrize(
    "image", ["", "Bad Image!", "Name:1", "a:b:c", "a/B:1", "a@sha256:xyz", "a;b", "$(id)", "a\n"]
)
def test_images_that_yarn_does_not_take(image):
    """An upper-case name too: the NodeManager refuses it."""
    ((where, words),) = found(image=image)
    assert where == "triton.image"
    assert repr(image) in words


@pytest.mark.parametrize("repository", [HDFS, PATH])
def test_what_is_right_has_no_finding(repository):
    """Mounts, ports and a network of one's own."""
    docker = Docker(
        network="bridge",
        mounts=("/data:/data:ro", "/a/b:/c", "/x:/y:rw+rslave"),
        ports=("9000:9000", ":9001", "127.0.0.1:9002:9002"),
    )
    assert found(docker, repository=repository, bind="0.0.0.0") == []


def test_every_error_is_said_at_once():
    """A bad name, network, mount and port: four findings, each with its key."""
    docker = Docker(network="none", gpu_runtime="a b", mounts=("x",), ports=("y",))
    assert [where for where, _ in found(docker, image="A B")] == [
        "triton.image", "docker.gpu_runtime", "docker.network", "docker.mounts", "docker.ports",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("mounts", "repository", "words"),
    [
        (("/a:/x:ro", "/b:/x/:rw"), HDFS, "has '/x' twice"),
        (("/a:/x/../x:ro", "/b:/x:rw"), HDFS, "has '/x' twice"),
        (("nope:/x:ro",), HDFS, "not an absolute path"),
        (("/a:/models:ro",), HDFS, "which YARN mounts"),
        (("/a:/models/b:ro",), HDFS, "which YARN mounts"),
        (("/a:/dev/shm:rw",), PATH, "shared memory"),
        (("/a:/b:wo",), PATH, "has '/a:/b:wo'"),
        (("/etc",), PATH, "has '/etc'"),
        (("/a b:/c",), PATH, "has '/a b:/c'"),
        ((), "/mnt/our models", "cannot be mounted at /models"),
        ((), "/mnt/a:b", "cannot be mounted at /models"),
    ],
)
def test_mounts_that_no_container_can_have(mounts, repository, words):
    """One destination twice, one that is taken, a source that is no path."""
    ((_, said),) = found(Docker(mounts=mounts), repository=repository)
    assert words in said


def test_one_s_own_mount_may_be_the_repository():
    """Then the path of it need not be one that YARN can mount."""
    docker = Docker(mounts=("/srv/models:/models:ro",))
    assert found(docker, repository="/mnt/our models") == []


@pytest.mark.parametrize(
    ("ports", "words"),
    [
        (("8000:80",), "Triton's own"),
        (("8002:8002",), "Triton's own"),
        (("9000:1", "9000:2"), "twice"),
        (("9000:1", "10.0.0.1:09000:2"), "twice"),
        (("0:1",), "has '0:1'"),
        (("70000:1",), "has '70000:1'"),
        (("1:70000",), "has '1:70000'"),
        (("80",), "has '80'"),
        (("80-90:80-90",), "has '80-90:80-90'"),
    ],
)
def test_ports_that_cannot_be_mapped(ports, words):
    """Triton's are mapped without being asked for."""
    said = " ".join(words for _, words in found(Docker(network="bridge", ports=ports)))
    assert words in said


def test_a_network_that_nothing_reaches_and_an_address_that_is_not_in_it():
    """Both in words."""
    assert "nothing could reach" in found(Docker(network="none"))[0][1]
    ((where, words),) = found(Docker(network="bridge"), bind="10.0.0.7")
    assert where == "triton.bind"
    assert "10.0.0.7" in words
    assert found(Docker(), bind="10.0.0.7") == []


def test_privileges_are_noted():
    """``docker-util.c`` of newer versions refuses them to all but entry points."""
    (note,) = notes(Docker(privileged=True), cluster_spec())
    assert (note.code, note.fatal) == ("TARN-3155", False)


def test_ports_that_have_no_effect_are_noted():
    """On the host's network; and where two instances of one node would want them."""
    spec = cluster_spec()
    assert not list(notes(Docker(), spec))
    (note,) = notes(Docker(ports=("1:1",)), spec)
    assert (note.code, note.fatal) == ("TARN-2005", False)
    apart = Docker(network="bridge", ports=("1:1",))
    assert not list(notes(apart, spec))
    (note,) = notes(apart, attrs.evolve(spec, placement=PlacementSpec(spread="none")))
    assert "second" in note.found
    assert not note.fatal


@given(text=st.text(max_size=20))
def test_a_mount_that_is_read_can_mean_nothing_to_a_shell(text):
    """Nor hold a comma, which YARN splits at, nor a second colon pair."""
    for form in (text, f"/{text}:/x", f"/x:/{text}", f"/x:/y:{text}"):
        if mount(form) is not None:
            assert not set(form) & set("\"'$`\\ \n;&|<>(){}*?[]#~!,")
            assert form.isascii()


@given(
    ports=st.lists(st.integers(1, 65_535), max_size=4, unique=True),
    own=st.sets(st.integers(1, 65_535), max_size=3),
)
def test_only_clashes_are_refused(ports, own):
    """Ports that differ from one another, and from Triton's, are taken."""
    docker = Docker(network="bridge", ports=tuple(f"{port}:1" for port in ports))
    wrong = list(problems(docker, TritonSpec(), HDFS, own))
    assert len(wrong) == len(own & set(ports))


def test_a_check_says_all_of_it_without_yarn():
    """Settings, shared memory and Python models of the repository in one go."""
    spec = attrs.evolve(
        cluster_spec(),
        instance=attrs.evolve(
            cluster_spec().instance, resources=ResourcesSpec(memory_mib=64, shm_mib=64)
        ),
    )
    stubs = (Stubs("ocr", fixed=100),)
    told = [
        finding.where
        for finding in checks.container_findings(
            spec, Docker(network="none"), YarnOverview(), stubs
        )
    ]
    assert "runtime.options.docker.network" in told
    assert sum("instance.resources" in where for where in told) == 3
    assert list(checks.container_findings(cluster_spec(), Docker(), YarnOverview())) == []
