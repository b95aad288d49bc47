"""The local runtime over small fake executables."""

import errno
import json
import os
import signal
import socket
import subprocess
from pathlib import Path

import attrs
import pytest
from local_runtime import LocalRuntimeHome, eventually, fact

from tarn.domain import Ended, Endpoint, Pending, Running
from tarn.errors import Superseded
from tarn_plugins.runtime.local import runtime as module
from tarn_plugins.runtime.local.files import ProcessRecord, Records
from tarn_plugins.runtime.local.machine import processes_of, start_ticks

ID = "echo-0001"


@pytest.fixture
def stage(tmp_path):
    stage = LocalRuntimeHome(tmp_path, tmp_path / "cache")
    yield stage
    stage.end()


def leader(stage: LocalRuntimeHome):
    return next((p for p in processes_of(stage.directory) if p.leader), None)


def test_a_wanted_instance_runs_once_however_often_it_is_asked(stage):
    """Applying a wish again changes nothing."""
    runtime = stage.fake_master()
    runtime.apply(stage.wish(ID))
    first = fact(runtime, ID, Running)
    runtime.apply(stage.wish(ID))
    assert first is not None
    assert runtime.facts() == (first,)
    assert len(processes_of(stage.directory)) <= 1


def test_two_instances_never_share_a_port(stage):
    """Six ports for two instances, all different, also when all asked for the same."""
    runtime = stage.fake_master(http_port=28000, grpc_port=28001, metrics_port=28002)
    runtime.apply(stage.wish(ID, "echo-0002"))
    ports = [
        port
        for f in runtime.facts()
        for port in (f.endpoint.http_port, f.endpoint.grpc_port, f.endpoint.metrics_port)
    ]
    assert len(set(ports)) == 6
    assert min(ports) >= 28000


def test_a_stop_ends_it_and_the_fact_stays_until_nobody_names_it(stage):
    """Ended, as asked, with the code; forgotten with its record by the next wish without it."""
    runtime = stage.fake_master()
    runtime.apply(stage.wish(ID))
    runtime.apply(stage.wish(stop=(ID,)))
    ended = eventually(lambda: fact(runtime, ID, Ended))
    assert ended.exit.expected
    runtime.apply(stage.wish(stop=(ID,)))
    assert runtime.facts() == (ended,)
    runtime.apply(stage.wish())
    assert runtime.facts() == ()
    assert list((stage.directory / "instances").iterdir()) == []
    assert stage.woken


def test_an_instance_that_nobody_names_is_left_alone(stage):
    """Neither wanted nor to stop means: keep your hands off."""
    runtime = stage.fake_master()
    runtime.apply(stage.wish(ID))
    runtime.apply(stage.wish())
    assert fact(runtime, ID, Running) is not None


def test_a_crash_is_told_with_tritons_own_words(stage):
    """The reason holds the exit code and the last error line of the log."""
    runtime = stage.fake_master(env={"FAKE": "die"})
    runtime.apply(stage.wish(ID))
    ended = eventually(lambda: fact(runtime, ID, Ended))
    assert ended.exit.reason == "exited with code 1: Failed to start HTTP service"
    assert ended.exit.code == 1
    assert not ended.exit.expected


def test_a_killed_instance_is_told_with_the_signal(stage):
    """Minus the signal, and its name."""
    runtime = stage.fake_master()
    runtime.apply(stage.wish(ID))
    os.kill(int(fact(runtime, ID, Running).container_id), signal.SIGKILL)
    ended = eventually(lambda: fact(runtime, ID, Ended))
    assert ended.exit.code == -9
    assert "SIGKILL" in ended.exit.reason


def test_logs_beyond_their_bounds_are_moved_aside(stage):
    """Of the masters and of each instance; who writes goes on, and the end of both is shown."""
    logs = stage.directory / "logs"
    (logs / ID).mkdir(parents=True)
    for log in (logs / "master.log", logs / ID / "triton.stderr"):
        log.write_bytes(b"earlier\n" * 2**18)
    stage.fake_master().apply(stage.wish(ID))
    master = logs / "master.log.1"
    eventually(lambda: master.exists() and (logs / "master.log").stat().st_size == 0)
    later = stage.master(binary=stage.fake())
    later.start("http://127.0.0.1:1")  # it looks as it begins, and the adopted one is among them
    moved = logs / ID / "triton.stderr.1"
    eventually(lambda: moved.exists() and moved.stat().st_size >= 2**21)
    found = later.log(ID, 5)
    assert found.truncated
    assert "earlier" in found.lines


def test_one_that_ignores_the_stop_is_killed_at_the_deadline(stage):
    """After Triton's exit time-out and two seconds more; `apply` does not wait for it."""
    runtime = stage.fake_master(env={"FAKE": "stubborn"}, exit_timeout_s=0.01)
    runtime.apply(stage.wish(ID))
    log = stage.directory / "logs" / ID / "triton.stderr"
    eventually(lambda: log.exists() and "up" in log.read_text())
    runtime.apply(stage.wish(stop=(ID,)))
    assert fact(runtime, ID, Running) is not None
    ended = eventually(lambda: fact(runtime, ID, Ended))
    assert ended.exit == attrs.evolve(ended.exit, code=-9, expected=True)
    assert "killed" in ended.exit.reason


def test_a_stopped_process_obeys_too(stage):
    """SIGSTOP does not save it from the stop."""
    runtime = stage.fake_master()
    runtime.apply(stage.wish(ID))
    os.kill(int(fact(runtime, ID, Running).container_id), signal.SIGSTOP)
    runtime.apply(stage.wish(stop=(ID,)))
    assert eventually(lambda: fact(runtime, ID, Ended)).exit.expected


def test_children_and_shared_memory_go_with_their_triton(stage):
    """A killed Triton leaves no stub and no region of its own; others' regions stay."""
    other = Path("/dev/shm/tarn_test_of_somebody_else")
    other.touch()
    try:
        runtime = stage.fake_master(env={"FAKE": "parent"})
        runtime.apply(stage.wish(ID))
        (record,), _ = Records(stage.directory / "instances").read()
        regions = eventually(lambda: list(Path("/dev/shm").glob(f"{record.shm_prefix}*")))
        eventually(lambda: len(processes_of(stage.directory)) == 2)
        os.kill(int(fact(runtime, ID, Running).container_id), signal.SIGKILL)
        eventually(lambda: fact(runtime, ID, Ended))
        eventually(lambda: processes_of(stage.directory) == ())
        assert not any(region.exists() for region in regions)
        assert other.exists()
    finally:
        other.unlink()


def test_a_missing_binary_is_an_ended_fact(stage):
    """A launch that fails is no exception."""
    runtime = stage.master(binary="/nowhere/tritonserver")
    runtime.start("http://127.0.0.1:1")
    runtime.apply(stage.wish(ID))
    ended = fact(runtime, ID, Ended)
    assert "/nowhere/tritonserver" in ended.exit.reason
    assert ended.exit.permanent


def test_an_instance_without_a_free_gpu_waits_and_says_for_what(stage):
    """Never the same GPU twice; the wait is a fact with words."""
    runtime = stage.fake_master(gpus=("GPU-a", "GPU-b"), each=2)
    runtime.apply(stage.wish(ID, "echo-0002"))
    assert fact(runtime, "echo-0002", Pending).waits_for == (
        f"needs 2 GPUs; 0 of 2 free ({ID} has 2)"
    )
    environ = Path(f"/proc/{fact(runtime, ID, Running).container_id}/environ")
    eventually(lambda: b"CUDA_VISIBLE_DEVICES=GPU-a,GPU-b\0" in environ.read_bytes())
    runtime.apply(stage.wish("echo-0002", stop=(ID,)))
    eventually(lambda: fact(runtime, ID, Ended))
    runtime.apply(stage.wish("echo-0002"))
    assert fact(runtime, "echo-0002", Running) is not None


def test_stopping_one_that_waits_cancels_it(stage):
    """What never started ends at once, as asked."""
    runtime = stage.fake_master(gpus=(), each=1)
    runtime.apply(stage.wish(ID))
    assert fact(runtime, ID, Pending) is not None
    runtime.apply(stage.wish(stop=(ID,)))
    assert fact(runtime, ID, Ended).exit.expected


def test_a_new_master_adopts_and_the_old_one_does_nothing_more(stage):
    """Same process, marked as adopted; spawn and kill of the old epoch raise and change nothing."""
    old = stage.fake_master()
    old_wish, old_stop = stage.wish(ID, "echo-0002"), stage.wish(stop=(ID,))
    old.apply(stage.wish(ID))
    running = fact(old, ID, Running)
    new = stage.fake_master()
    assert new.facts() == (attrs.evolve(running, adopted=True),)
    for wish in (old_wish, old_stop):
        with pytest.raises(Superseded):
            old.apply(wish)
    assert start_ticks(int(running.container_id)) is not None
    assert len(processes_of(stage.directory)) == 1
    new.apply(stage.wish(stop=(ID,)))
    assert eventually(lambda: fact(new, ID, Ended)).exit.expected


def test_a_process_whose_record_was_never_completed_is_adopted(stage):
    """Killed between spawn and record: the environment of the process names it."""
    first = stage.fake_master()
    first.apply(stage.wish(ID))
    eventually(lambda: leader(stage))
    records = Records(stage.directory / "instances")
    (record,), _ = records.read()
    records.write(attrs.evolve(record, pid=None, start=None))
    second = stage.fake_master()
    assert fact(second, ID, Running).container_id == str(record.pid)


def test_an_intent_without_a_process_is_asked_again(stage):
    """Killed before the spawn: nothing is recovered, and the next wish starts it."""
    first = stage.fake_master()
    first.apply(stage.wish(ID))
    records = Records(stage.directory / "instances")
    (record,), _ = records.read()
    records.write(attrs.evolve(record, instance_id="echo-0002", pid=None, start=None))
    second = stage.fake_master()
    assert [f.instance_id for f in second.facts()] == [ID]
    second.apply(stage.wish(ID, "echo-0002"))
    assert fact(second, "echo-0002", Running) is not None


def test_one_that_died_unwatched_is_told_as_ended(stage):
    """Its pid is gone, or belongs to somebody else by now: it is not touched."""
    first = stage.fake_master()
    first.apply(stage.wish(ID))
    (record,), _ = Records(stage.directory / "instances").read()
    first.close()
    Records(stage.directory / "instances").write(
        attrs.evolve(record, instance_id="echo-0009", pid=os.getpid(), start=1)
    )
    second = stage.fake_master()
    ended = fact(second, "echo-0009", Ended)
    assert "exit status is unknown" in ended.exit.reason
    assert fact(second, ID, Running) is not None


def test_finish_leaves_logs_alone(stage):
    """After the end of a cluster nothing but its logs is left."""
    runtime = stage.fake_master()
    runtime.apply(stage.wish(ID))
    runtime.apply(stage.wish(stop=(ID,)))
    eventually(lambda: fact(runtime, ID, Ended))
    (stage.directory / "spec.yaml").touch()
    (stage.directory / "api_token").touch()
    runtime.finish()
    assert [p.name for p in stage.directory.iterdir()] == ["logs"]
    assert runtime.facts() == ()


def test_without_a_keeper_the_runtime_warns(stage):
    """A person should know that nobody restarts the master."""
    assert "TARN-1014" in [issue.code for issue in stage.fake_master().warnings()]


def test_a_fixed_port_that_another_program_holds_is_told(stage):
    """Where the instance listens instead; of an instance's own port nothing is said."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = server.getsockname()[1]
        runtime = stage.fake_master(http_port=taken)
        runtime.apply(stage.wish(ID))
        (issue,) = [one for one in runtime.warnings() if one.code == "TARN-3833"]
        line = issue.found
        assert issue.subject == ID
        assert f"{ID}: triton.http_port = {taken} is in use by" in line
        (running,) = [fact for fact in runtime.facts() if fact.instance_id == ID]
        assert line.endswith(f": {running.endpoint.http_port} is taken")
        runtime.apply(stage.wish(stop=(ID,)))
        eventually(lambda: fact(runtime, ID, Ended))
        runtime.apply(stage.wish())
        assert not [one for one in runtime.warnings() if one.code == "TARN-3833"]


@pytest.mark.parametrize(
    ("number", "said"),
    [(errno.EIO, Ended), (errno.EMFILE, Pending)],
)
def test_a_start_that_cannot_be_watched_leaves_no_process(stage, monkeypatch, number, said):
    """It failed, or waits for what this machine lacks; nobody would ever see its end."""
    runtime = stage.fake_master()

    def fail(*_arguments, **_more):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(runtime._watcher, "watch", fail)
    runtime.apply(stage.wish(ID))
    assert fact(runtime, ID, said) is not None
    assert processes_of(stage.directory) == ()


def test_logs_are_looked_at_again_after_a_look_that_failed(stage, monkeypatch):
    """A master without a descriptor begins all the same, and its logs have an end later."""
    looks = []

    def fail(*_arguments):
        looks.append(1)
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(module, "remove_oldest", fail)
    monkeypatch.setattr(module, "ROTATE_EVERY_S", 0.01)
    stage.fake_master()
    eventually(lambda: len(looks) > 2)


def test_a_keeper_s_end_is_a_warning_at_once(stage):
    """Silent while it lives; told, with a wake-up, when it is gone."""
    keeper = subprocess.Popen(["sleep", "60"])
    note = {"pid": keeper.pid, "start": start_ticks(keeper.pid), "exits": []}
    (stage.directory / "keeper.json").write_text(json.dumps(note))
    runtime = stage.fake_master()
    assert runtime.warnings() == ()
    keeper.kill()
    eventually(runtime.warnings)
    eventually(lambda: stage.woken)
    keeper.wait(5)


def test_a_token_named_by_the_environment_does_not_reach_triton(stage):
    """What the master needs as a secret is not handed on; the marks of the cluster are."""
    runtime = stage.fake_master(token="env:MY_TOKEN", environ={"MY_TOKEN": "s3cret", "MORE": "1"})
    runtime.apply(stage.wish(ID))
    found = eventually(lambda: leader(stage))
    environ = Path(f"/proc/{found.pid}/environ").read_bytes()
    assert found.instance_id == ID
    assert b"MORE=1" in environ
    assert b"s3cret" not in environ


def test_records_survive_a_damaged_neighbour(tmp_path):
    """A file that cannot be read is named, and costs no other."""
    records = Records(tmp_path / "instances")
    record = ProcessRecord("a-0001", "h", Endpoint("h", 1, 2, 3), "p", 1.0, 2.0, ("GPU-a",))
    records.write(record)
    (tmp_path / "instances" / "a-0002.json").write_text("{")
    assert records.read() == ((record,), ("a-0002.json",))
