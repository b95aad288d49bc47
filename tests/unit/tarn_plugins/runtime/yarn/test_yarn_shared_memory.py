"""What Python models need of /dev/shm, and where it cannot be had."""

import attrs
import pytest
from hadoop_files import MemoryFiles
from hypothesis import given
from hypothesis import strategies as st

from tarn.domain.spec import InstanceSpec, ModelsSpec, ResourcesSpec, TritonSpec
from tarn.testing.context import cluster_spec
from tarn.triton.lint import Stubs
from tarn_plugins.runtime.yarn import Docker
from tarn_plugins.runtime.yarn.launch import repository, shared_memory
from tarn_plugins.runtime.yarn.launch.shared_memory import findings, need, region_mib

OLD, NEW = "nvcr.io/nvidia/tritonserver:23.08-py3", "nvcr.io/nvidia/tritonserver:23.09-py3"


def spec(image=NEW, *, args=None, serve=(), control="none", **resources):
    return attrs.evolve(
        cluster_spec(),
        triton=TritonSpec(image=image, args=args or {}),
        instance=InstanceSpec(ResourcesSpec(**resources)),
        models=ModelsSpec("hdfs://nn/m", serve, control=control),
    )


@pytest.mark.parametrize(
    ("image", "mib"),
    [
        (NEW, 1), (OLD, 64), ("triton:22.12", 64), ("triton:24.09-vllm-python-py3", 1),
        ("reg:5000/a/triton:22.01-py3", 64), ("triton", 1), ("triton:latest", 1),
        ("triton:2.34", 1), ("triton:21.123", 1), ("reg:22.01/a/b", 1),
    ],
)  # fmt: skip
def test_the_region_s_size_is_known_from_the_tag(image, mib):
    """64 MiB each before 23.09; a tag that tells nothing counts as new."""
    assert region_mib(TritonSpec(image=image)) == mib


def test_a_size_that_was_asked_for_wins():
    """Of several the last, as Triton takes it."""
    args = {
        "backend-config": ["python,shm-growth-byte-size=1", "python,shm-default-byte-size=2097152"]
    }
    assert region_mib(TritonSpec(image=OLD, args=args)) == 2
    assert (
        region_mib(TritonSpec(args={"backend_config": "python,shm-default-byte-size=524288"}))
        == 0.5
    )


def test_three_python_models_with_two_copies_each():
    """server#6195: 6 MiB on a new Triton, 384 MiB on an old one."""
    stubs = [Stubs(name, fixed=2) for name in "abc"]
    assert need(spec(), stubs).mib == 6
    assert need(spec(OLD), stubs).mib == 384
    (note,) = findings(spec(OLD, memory_mib=384), Docker(), stubs)
    assert (note.code, note.fatal) == ("TARN-3159", False)
    assert "6 copies" in note.found
    assert list(findings(spec(OLD, memory_mib=4096), Docker(), stubs)) == []


def test_only_what_is_loaded_counts():
    """And a copy for each GPU."""
    stubs = [Stubs("a", per_gpu=2), Stubs("b", fixed=7)]
    assert need(spec(gpus=4), stubs).copies == 15
    assert need(spec(serve=("a",)), stubs).copies == 9
    assert need(spec(serve=("a",), control="explicit", gpus=4), stubs).copies == 8


def test_shm_is_a_part_of_the_memory():
    """What does not fit can never be had."""
    for shm, fatal in ((4096, True), (5000, True)):
        (finding,) = findings(spec(memory_mib=4096, shm_mib=shm), Docker())
        assert finding.fatal is fatal
        assert f"{shm}MiB" in finding.where
    assert list(findings(spec(memory_mib=4096, shm_mib=1024), Docker(), largest_mib=8192)) == []


def test_shm_that_yarn_may_not_be_able_to_give_is_noted():
    """A tmpfs of Docker's holds half of a node's memory; nobody can ask for more."""
    (note,) = findings(spec(memory_mib=8000, shm_mib=5000), Docker(), largest_mib=8192)
    assert not note.fatal
    assert "half" in note.found
    (note,) = findings(spec(OLD, shm_mib=100), Docker(), [Stubs("a", fixed=2)])
    assert "128 MiB" in note.found


def test_shm_without_docker_has_no_effect_and_that_is_said():
    """The node's own /dev/shm is what there is."""
    (note,) = findings(spec(shm_mib=100), None)
    assert not note.fatal
    assert "no effect" in note.found


@given(
    memory=st.integers(1, 10_000),
    shm=st.none() | st.integers(1, 20_000),
    copies=st.integers(0, 500),
    largest=st.integers(0, 20_000),
    docker=st.sampled_from([None, Docker()]),
)
def test_nothing_is_fatal_but_what_cannot_fit(memory, shm, copies, largest, docker):
    """Whatever the numbers are."""
    wanted = spec(memory_mib=memory, shm_mib=shm)
    found = list(findings(wanted, docker, [Stubs("a", fixed=copies)], largest))
    assert any(each.fatal for each in found) == bool(docker and shm and shm >= memory)


def test_python_models_are_found_on_a_file_system_and_on_this_machine(tmp_path):
    """The same repository, looked at in both ways; a broken configuration is borne."""
    texts = {
        "a/config.pbtxt": 'backend: "python" instance_group [{ kind: KIND_CPU count: 3 }]',
        "a/1/model.py": "",
        "b/config.pbtxt": 'backend: "onnxruntime"',
        "b/1/model.onnx": "",
        "c/1/model.py": "",
        "d/config.pbtxt": "instance_group [{",
        "d/1/model.onnx": "",
        "e/config.pbtxt": 'backend: "python" instance_group [{ count: 2 gpus: [0, 1] }, {}]',
    }
    files = MemoryFiles()
    for path, text in texts.items():
        files.write(f"hdfs://nn/m/{path}", text.encode())
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    entries = repository.look(files, "hdfs://nn/m")
    found = shared_memory.stubs_in(entries, files.read)
    assert found == (Stubs("a", 3, 0), Stubs("c", 0, 1), Stubs("e", 4, 1))
    assert shared_memory.stubs_at(tmp_path) == found
    assert shared_memory.stubs_at(tmp_path / "nowhere") == ()


def test_a_repository_with_very_many_models_is_not_read():
    """Each configuration is a call of its own."""
    files = MemoryFiles()
    for at in range(201):
        files.write(f"hdfs://nn/m/m{at}/config.pbtxt", b'backend: "python"')
    entries = repository.look(files, "hdfs://nn/m")
    assert shared_memory.stubs_in(entries, None) == ()
