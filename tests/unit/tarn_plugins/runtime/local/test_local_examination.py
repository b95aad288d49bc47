"""What the doctor sees of this machine."""

import socket
from pathlib import Path

import attrs
import pytest

from tarn.clock import SystemClock
from tarn.doctor import CheckState, OfferedCheck, Result, examine
from tarn.domain import ClusterSpec
from tarn.domain.spec import ApiSpec, InstanceSpec, ReplicasSpec, ResourcesSpec, TritonSpec
from tarn.testing.context import client_context, cluster_spec
from tarn_plugins.runtime import local
from tarn_plugins.runtime.local.checks import shared_memory


def look(directory: Path, spec: ClusterSpec) -> dict[str, Result]:
    checks = local.tarn_doctor_checks(spec, client_context(directory))
    results = examine([OfferedCheck("local", check) for check in checks], SystemClock())
    return {result.check: result for result in results}


def test_each_thing_that_a_start_needs_is_a_check(tmp_path):
    """With a tritonserver of one's own all is well on any machine."""
    server = tmp_path / "tritonserver"
    server.write_text("#!/bin/sh\n")
    server.chmod(0o700)
    spec = attrs.evolve(
        cluster_spec(),
        triton=TritonSpec(binary=str(server)),
        instance=InstanceSpec(ResourcesSpec(memory_mib=1)),
    )
    found = look(tmp_path, spec)
    assert list(found) == [
        "tritonserver",
        "GPUs of this machine",
        "memory of this machine",
        "open files",
        "shared memory of this machine",
    ]
    assert found["tritonserver"].seen == str(server)
    assert found["GPUs of this machine"].state is CheckState.OK
    assert found["memory of this machine"].seen.endswith(" MiB")


def test_what_is_missing_is_found_where_it_is_missed(tmp_path):
    """The other checks do not tell it again."""
    spec = attrs.evolve(
        cluster_spec(),
        triton=TritonSpec(binary="/nowhere/tritonserver"),
        instance=InstanceSpec(ResourcesSpec(gpus=9, memory_mib=2**40)),
    )
    found = look(tmp_path, spec)
    codes = {name: [one.code for one in result.findings] for name, result in found.items()}
    assert codes["tritonserver"] == ["TARN-3101"]
    assert codes["GPUs of this machine"] == ["TARN-3105"]
    assert codes["memory of this machine"] == ["TARN-3106"]
    assert "1 instance needs 9 GPUs" in found["GPUs of this machine"].findings[0].found


def test_a_fixed_port_that_somebody_holds_is_an_error(tmp_path):
    """A free one is well."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        spec = attrs.evolve(cluster_spec(), api=ApiSpec(port=port))
        taken = look(tmp_path, spec)[f"port {port}"]
    assert [one.code for one in taken.findings] == ["TARN-3103"]
    assert look(tmp_path, spec)[f"port {port}"].seen == "is free"


def test_another_runtime_s_cluster_is_not_this_machine_s_business(tmp_path):
    """Nothing is offered."""
    spec = cluster_spec()
    elsewhere = attrs.evolve(spec, runtime=attrs.evolve(spec.runtime, use="yarn"))
    assert look(tmp_path, elsewhere) == {}


@pytest.mark.parametrize(
    ("shm_mib", "initial", "free_mib", "state", "said"),
    [
        (None, 1, 64, CheckState.OK, "64 MiB free"),
        (None, 1, 63, CheckState.WARNING, "size=128m"),
        (None, 3, 191, CheckState.WARNING, "size=384m"),
        (512, 2, 1024, CheckState.OK, "1024 MiB free"),
        (512, 2, 1023, CheckState.WARNING, "--shm-size=2048m"),
    ],
)
def test_shared_memory_must_hold_the_first_instances(shm_mib, initial, free_mib, state, said):
    """As much as the spec says, or as Docker gives a container; the fix has the size."""
    spec = attrs.evolve(
        cluster_spec(),
        instance=InstanceSpec(ResourcesSpec(shm_mib=shm_mib)),
        replicas=ReplicasSpec(min=1, max=9, initial=initial),
    )
    looked = shared_memory(spec, free_mib << 20)
    assert bool(looked.findings) == (state is CheckState.WARNING)
    assert said in (looked.findings[0].next_step if looked.findings else looked.seen)
