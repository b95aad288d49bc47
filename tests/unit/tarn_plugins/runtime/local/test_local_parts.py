"""The small pure parts: reasons, ports, GPUs, checks, logs."""

import os
import socket
from pathlib import Path

import attrs
import pytest

from tarn.domain import ClusterSpec
from tarn.domain.spec import (
    ApiSpec,
    InstanceSpec,
    ModelsSpec,
    ParallelismSpec,
    ReplicasSpec,
    ResourcesSpec,
    TritonSpec,
)
from tarn.errors import LaunchError
from tarn.triton.exits import last_error
from tarn_plugins.runtime.local import checks, machine
from tarn_plugins.runtime.local.checks import findings
from tarn_plugins.runtime.local.instances import (
    ProcessExit,
    allocate_gpus,
    explain,
    lacking_gpus,
    visible_gpus,
)
from tarn_plugins.runtime.local.machine import Ports, addresses, holder, is_free, outward
from tarn_plugins.runtime.local.processes import rotate, tail

LOOPBACK = "127.0.0.1"
CUDA = 'E1127 23:52:36.2 2510 server.cc:241] "CudaDriverHelper has not been initialized."'
BIND = (
    'E1127 23:52:37.259414 2510 main.cc:345] "failed to start HTTP service: Unavailable - '
    'Socket \\"127.0.0.1:8000\\" already in use"'
)


def test_the_last_error_of_tritons_log_is_found_unquoted():
    """Later lines of other kinds do not hide it."""
    lines = [CUDA, BIND, 'I1127 23:52:38.1 2510 server.cc:1] "bye"']
    expected = 'failed to start HTTP service: Unavailable - Socket "127.0.0.1:8000" already in use'
    assert last_error(lines) == expected


def test_the_error_every_machine_without_gpu_logs_is_no_reason():
    """It is there when all is well."""
    assert last_error([CUDA]) == ""


def test_a_plain_error_line_counts_too():
    """Triton's own start-up and the loader write without a prefix."""
    assert last_error([plain := "error: creating server: Internal - x"]) == plain
    assert last_error(["I am fine", "no error here"]) == ""


def test_a_long_error_is_cut():
    """A reason stays readable."""
    assert len(last_error(["error: " + "x" * 5000])) < 600


OUT_OF_MEMORY = (
    "killed by signal 9 (SIGKILL), not by TARN: probably out of memory (it used up to 3912 MiB "
    "without its Python models; instance.resources.memory says 2048 MiB, the machine has 4096 MiB)."
    " Run fewer or smaller instances, or raise the machine's memory or the limit of the container "
    "that the master is in"
)


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (ProcessExit(0), "exited with code 0"),
        (ProcessExit(-11), "killed by signal 11 (SIGSEGV)"),
        (ProcessExit(-9), "killed by signal 9 (SIGKILL), not by TARN: probably out of memory"),
        (ProcessExit(139), "killed by signal 11 (SIGSEGV)"),
        (
            ProcessExit(137, peak_mib=3912, machine_mib=4096, asked_mib=2048),
            OUT_OF_MEMORY,
        ),
        (
            ProcessExit(None),
            "ended; its exit status is unknown, since an earlier master had started it",
        ),
        (ProcessExit(0, asked=True), "stopped as asked"),
        (
            ProcessExit(1, asked=True),
            "connections were still open at triton.exit_timeout; requests on them are lost",
        ),
        (
            ProcessExit(-9, asked=True, forced=True),
            "it did not end in time and was killed; requests in flight are lost",
        ),
    ],
)
def test_each_end_has_its_words(end, reason):
    """Exit codes, signals, and our own stops."""
    status = explain(end, [])
    assert status.reason == reason
    assert status.expected is end.asked


def test_a_command_that_can_never_start_is_permanent():
    """The loader's word is final; a taken port is not."""
    loader = "/x/tritonserver: error while loading shared libraries: libb64.so.0d: cannot open"
    assert explain(ProcessExit(127), [loader]).permanent
    assert not explain(ProcessExit(1), [BIND]).permanent


def test_a_taken_port_gives_the_next_one():
    """Preferred, else upwards."""
    with socket.create_server((LOOPBACK, 0)) as server:
        taken = server.getsockname()[1]
        assert not is_free(LOOPBACK, taken)
        assert Ports(LOOPBACK).reserve(taken) > taken


@pytest.mark.parametrize("key", ["http_port", "grpc_port", "metrics_port"])
def test_a_taken_port_of_triton_is_told_before_the_start(key):
    """A note with who holds it: the start goes on, at the next free port."""
    with socket.create_server((LOOPBACK, 0)) as server:
        taken = server.getsockname()[1]
        spec = ClusterSpec("a", ModelsSpec("/m"), triton=TritonSpec(**{key: taken}))
        (note,) = [one for one in findings(spec, {}) if one.code == "TARN-3833"]
    assert not note.fatal
    assert note.where == f"triton.{key} = {taken}"
    assert "next free port" in note.found
    assert f"(pid {os.getpid()})" in note.found


def test_a_reserved_port_is_not_given_again_until_released():
    """Although nobody listens on it yet."""
    mine = Ports(LOOPBACK)
    first = mine.reserve(0)
    assert mine.reserve(first) != first
    mine.release([first])
    assert mine.reserve(first) == first


def test_free_ports_lie_below_those_of_outgoing_connections():
    """So no client's socket can slip onto one before Triton binds it."""
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    mine = Ports(LOOPBACK)
    assert all(20_000 <= mine.reserve(0) < max(first, 21_000) for _ in range(20))


def test_no_port_left_is_an_error_with_its_code(monkeypatch):
    """And not an endless loop."""
    monkeypatch.setattr(machine, "is_free", lambda _address, _port: False)
    with pytest.raises(LaunchError) as raised:
        Ports(LOOPBACK).reserve(65_000)
    assert raised.value.code == "TARN-3103"


def test_a_wildcard_is_reached_by_an_address():
    """Nobody can connect to 0.0.0.0 from elsewhere."""
    assert outward("0.0.0.0") != "0.0.0.0"
    assert outward("10.1.2.3") == "10.1.2.3"


def test_gpus_are_given_in_order_and_never_twice():
    """None when there are not enough free ones; a lost GPU counts for nothing."""
    present = ("a", "b", "c")
    assert allocate_gpus(present, (), 2) == ("a", "b")
    assert allocate_gpus(present, ("a", "gone"), 2) == ("b", "c")
    assert allocate_gpus(present, ("a", "b"), 2) is None
    assert allocate_gpus((), (), 0) == ()


@pytest.mark.parametrize(
    ("setting", "ours"),
    [
        (None, ("GPU-a1", "GPU-b2", "GPU-b3")),
        ("", ()),
        ("1", ("GPU-b2",)),
        ("2, GPU-a", ("GPU-b3", "GPU-a1")),
        ("GPU-b", ()),
        ("0,7,1", ("GPU-a1",)),
        ("-1", ()),
    ],
)
def test_an_outer_cuda_visible_devices_is_obeyed(setting, ours):
    """Whoever gave this process two GPUs of eight did not give it the others."""
    assert visible_gpus(("GPU-a1", "GPU-b2", "GPU-b3"), setting) == ours


def test_a_port_s_holder_is_named():
    """With its pid, as seen in /proc."""
    with socket.create_server((LOOPBACK, 0)) as server:
        assert "(pid " in holder(server.getsockname()[1])


def test_a_log_over_its_limit_is_moved_aside_once(tmp_path):
    """Two are kept, and the tail reads on."""
    log = tmp_path / "triton.stderr"
    log.write_text("old\n" * 10)
    rotate(log, 10)
    assert log.stat().st_size == 0
    assert (tmp_path / "triton.stderr.1").read_text() == "old\n" * 10
    log.write_text("new\n")
    rotate(log, 10)
    assert tail(tmp_path) == ["new"]


def spec(tmp_path: Path, **parts: object) -> ClusterSpec:
    server = tmp_path / "tritonserver"
    server.write_text("#!/bin/sh\n")
    server.chmod(0o700)
    triton = parts.pop("triton", TritonSpec())
    return ClusterSpec("echo", ModelsSpec("/m"), attrs.evolve(triton, binary=str(server)), **parts)


def codes(spec: ClusterSpec, memory: int = 10**6, gpus: tuple[str, ...] = ()) -> dict[str, bool]:
    found = findings(spec, {}, present_gpus=lambda: gpus, memory=lambda: memory)
    return {f.code: f.fatal for f in found}


def test_a_sound_spec_has_no_finding(tmp_path):
    """Nothing to say, nothing said."""
    assert codes(spec(tmp_path)) == {}


def test_several_ranks_are_refused_with_the_part_that_brings_them(tmp_path):
    """Before anything starts."""
    several = InstanceSpec(parallelism=ParallelismSpec(tensor=2))
    assert codes(spec(tmp_path, instance=several)) == {"TARN-2004": True}


def test_an_argument_that_has_a_key_of_its_own_is_refused(tmp_path):
    """Else the endpoint would not be where the master looks."""
    assert codes(spec(tmp_path, triton=TritonSpec(args={"http-port": 1}))) == {"TARN-2003": True}


def test_missing_gpus_are_fatal_and_missing_memory_is_a_warning(tmp_path):
    """Locally nothing enforces memory."""
    needy = InstanceSpec(ResourcesSpec(gpus=2, memory_mib=4096))
    two = ReplicasSpec(min=2)
    found = codes(spec(tmp_path, instance=needy, replicas=two), memory=8000, gpus=("a", "b"))
    assert found == {"TARN-3105": True, "TARN-3106": False}
    enough = ("a", "b", "c", "d")
    assert codes(spec(tmp_path, instance=needy, replicas=two), gpus=enough) == {}


def test_a_taken_api_port_is_found_with_its_holder(tmp_path):
    """Before anything starts."""
    with socket.create_server((LOOPBACK, 0)) as server:
        taken = spec(tmp_path, api=ApiSpec(port=server.getsockname()[1]))
        (finding,) = findings(taken, {}, present_gpus=tuple, memory=lambda: 10**6)
    assert finding.code == "TARN-3103"
    assert "pid" in finding.found


def test_no_tritonserver_at_all_is_found(tmp_path):
    """With what to install."""
    wrong = attrs.evolve(spec(tmp_path), triton=TritonSpec(binary="/nowhere/tritonserver"))
    assert codes(wrong) == {"TARN-3101": True}


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("203.0.113.7", "is not an address of this machine"),  # TEST-NET-3: nobody's
        ("nohost.invalid", "is a name that this machine does not know"),
    ],
)
def test_an_address_of_nobody_is_refused_with_those_there_are(address, why, monkeypatch):
    """Before the start, not as a Triton that cannot listen."""
    resolve = socket.getaddrinfo

    def without_a_name_server(host, *arguments, **more):
        if host.endswith(".invalid"):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return resolve(host, *arguments, **more)

    monkeypatch.setattr(socket, "getaddrinfo", without_a_name_server)
    spec = ClusterSpec("a", ModelsSpec("/m"), triton=TritonSpec(bind=address))
    (found,) = checks.bind(spec)
    assert found.found == f"{why}; its addresses are {', '.join(addresses())}"
    assert addresses()[0] == "127.0.0.1"


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "localhost", None, "999.1.1.1"])
def test_an_address_of_this_machine_is_taken(address):
    """What has the wrong form is refused elsewhere, once."""
    assert not [*checks.bind(ClusterSpec("a", ModelsSpec("/m"), triton=TritonSpec(bind=address)))]


@pytest.mark.parametrize(
    ("count", "present", "held", "said"),
    [
        (1, 1, {"a-0001": 1}, "needs 1 GPU; 0 of 1 free (a-0001 has it)"),
        (
            2,
            4,
            {"a-0002": 2, "a-0001": 1},
            "needs 2 GPUs; 1 of 4 free (a-0001 has 1, a-0002 has 2)",
        ),
        (2, 1, {"a-0001": 0}, "needs 2 GPUs; 1 of 1 free"),
        (1, 0, {}, "needs 1 GPU; 0 of 0 free"),
    ],
)
def test_who_waits_for_a_gpu_is_told_who_has_it(count, present, held, said):
    """Not "1 free GPUs of 1", which reads as if one were free."""
    assert lacking_gpus(count, present, held) == said
