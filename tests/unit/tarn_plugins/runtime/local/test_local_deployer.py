"""Deployer and keeper, with a small program in place of the master."""

import os
import resource
import signal
import subprocess
import sys
import threading

import attrs
import pytest
from local_runtime import LocalRuntimeHome, SystemClock, eventually

from tarn.domain import ClusterSpec, Epoch
from tarn.domain.spec import ModelsSpec
from tarn.errors import LaunchError, NotFoundError, RefusedError
from tarn.interfaces import ClientContext, ClusterRef, Staged
from tarn_plugins.runtime.local import keeper
from tarn_plugins.runtime.local.deployer import LocalDeployer
from tarn_plugins.runtime.local.files import read_keeper, write_ref
from tarn_plugins.runtime.local.machine import (
    alive,
    kill,
    masters_of,
    processes_of,
    start_ticks,
)

SPEC = ClusterSpec("echo", ModelsSpec("/m"))
REF = ClusterRef("echo", "local", Epoch(1, 1))
STAGED = Staged("/m", "in_place")
FILES = {"spec.yaml": b"name: echo\n", "api_token": b"secret"}
MASTER = """
import os, signal, sys, time
from pathlib import Path
from tarn.interfaces import ClusterRef
from tarn_plugins.runtime.local.state import claim_epoch
from tarn_plugins.runtime.local.machine import start_ticks
from tarn_plugins.runtime.local.files import write_ref

directory = Path(sys.argv[1])
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
epoch = claim_epoch(None, directory, {})
pid = os.getpid()
print("master", epoch, flush=True)
write_ref(directory, ClusterRef("echo", "local", epoch, "http://127.0.0.1:1", pid=pid,
                                pid_started=start_ticks(pid)))
while True:
    signal.pause()
"""


class Desk:
    """A client and its clusters' home."""

    def __init__(self, stage: LocalRuntimeHome) -> None:
        self.stage = stage
        self.directory = stage.directory
        self.program = stage.paths.home / "master.py"
        self.program.write_text(MASTER)
        self.context = ClientContext(
            SystemClock(),
            dict(os.environ),  # noqa: TID251 (a test is an entry point)
            stage.paths,
        )

    def deployer(self, *command: str) -> LocalDeployer:
        mine = (sys.executable, str(self.program), str(self.directory))
        return LocalDeployer(self.context, command or mine)

    def serve_without_master(self) -> None:
        """Leave one instance as a master that was killed would."""
        runtime = self.stage.fake_master()
        runtime.apply(self.stage.wish("echo-0001"))
        runtime.close()
        (self.directory / "ref.json").unlink()

    def end(self) -> None:
        for _ in range(2):
            for pid, start in masters_of(self.directory):
                kill(pid, start)
        self.stage.end()


@pytest.fixture
def desk(tmp_path):
    desk = Desk(LocalRuntimeHome(tmp_path, tmp_path / "cache"))
    yield desk
    desk.end()


def test_submit_returns_a_master_that_listens_and_end_leaves_only_logs(desk):
    """Found by its name, files private; after the end no process and nothing but logs."""
    deployer = desk.deployer()
    ref = deployer.submit(SPEC, STAGED, FILES)
    assert ref.url == "http://127.0.0.1:1"
    assert alive(ref.pid, ref.pid_started)
    assert deployer.find("echo") == ref
    token = desk.directory / "api_token"
    assert (token.read_bytes(), token.stat().st_mode & 0o777) == (b"secret", 0o600)
    deployer.end(ref)
    eventually(lambda: masters_of(desk.directory) == ())
    assert [p.name for p in desk.directory.iterdir()] == ["logs"]
    assert deployer.find("echo") is None
    deployer.end(ref)


def test_a_second_submit_is_refused_while_the_first_runs(desk):
    """The caller attaches instead."""
    deployer = desk.deployer()
    ref = deployer.submit(SPEC, STAGED, FILES)
    with pytest.raises(RefusedError) as raised:
        deployer.submit(SPEC, STAGED, {"spec.yaml": b"other"})
    assert raised.value.code == "TARN-2103"
    assert (desk.directory / "spec.yaml").read_bytes() == FILES["spec.yaml"]
    assert deployer.find("echo") == ref


def test_of_two_submits_at_once_one_wins(desk):
    """The other is refused; there is one master."""
    outcomes: list[object] = []

    def submit() -> None:
        try:
            outcomes.append(desk.deployer().submit(SPEC, STAGED, FILES))
        except RefusedError as error:
            outcomes.append(error)

    threads = [threading.Thread(target=submit) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(isinstance(o, RefusedError) for o in outcomes) == [False, True]
    assert len({pid for pid, _ in masters_of(desk.directory)}) == 2  # keeper and master


def test_a_master_that_dies_at_once_is_a_launch_error_with_its_last_words(desk):
    """Nothing is left behind but the log."""
    failing = desk.deployer(sys.executable, "-c", "raise SystemExit('no such thing')")
    with pytest.raises(LaunchError, match="no such thing") as raised:
        failing.submit(SPEC, STAGED, FILES)
    assert "ended with code 1" in str(raised.value)
    eventually(lambda: masters_of(desk.directory) == ())
    assert [p.name for p in desk.directory.iterdir()] == ["logs"]


def test_the_last_words_are_those_of_this_start_alone(desk):
    """What an earlier master complained of may have been mended since."""
    for words, others in (("the first cause", "second"), ("the second cause", "first")):
        failing = desk.deployer(sys.executable, "-c", f"raise SystemExit({words!r})")
        with pytest.raises(LaunchError, match=words) as raised:
            failing.submit(SPEC, STAGED, FILES)
        assert others not in str(raised.value)
    log = (desk.directory / "logs" / "master.log").read_text()
    assert "the first cause" in log  # which is kept


def test_a_killed_master_is_started_again_with_a_higher_epoch(desk):
    """By its keeper, within the first pause."""
    deployer = desk.deployer()
    first = deployer.submit(SPEC, STAGED, FILES)
    os.kill(first.pid, signal.SIGKILL)
    second = eventually(
        lambda: (found := deployer.find("echo")) and found.pid not in (None, first.pid) and found
    )
    assert second.epoch > first.epoch
    assert second.epoch.incarnation == first.epoch.incarnation
    assert read_keeper(desk.directory).exits == (-9,)


def test_sigterm_to_the_keeper_takes_the_master_along_and_leaves_the_instances(desk):
    """And `up` starts a master of a higher incarnation, beside the same instances."""
    desk.serve_without_master()
    deployer = desk.deployer()
    first = deployer.submit(SPEC, STAGED, FILES)
    os.kill(read_keeper(desk.directory).pid, signal.SIGTERM)
    eventually(lambda: masters_of(desk.directory) == ())
    assert not (desk.directory / "keeper.json").exists()
    lost = deployer.find("echo")
    assert lost.url is None
    assert len(lost.orphans) == 1
    second = deployer.submit(SPEC, STAGED, FILES)
    assert second.epoch.incarnation > first.epoch.incarnation
    assert len(processes_of(desk.directory)) == 1
    deployer.end(second)
    assert processes_of(desk.directory) == ()


def test_a_failed_submit_leaves_instances_of_an_earlier_master_alone(desk):
    """They serve, and what the next master needs to take them over is still there."""
    desk.serve_without_master()
    failing = desk.deployer(sys.executable, "-c", "raise SystemExit(1)")
    with pytest.raises(LaunchError):
        failing.submit(SPEC, STAGED, FILES)
    assert len(processes_of(desk.directory)) == 1
    assert (desk.directory / "instances" / "echo-0001.json").exists()


@pytest.mark.parametrize(("code", "ended"), [(0, True), (3, False)])
def test_a_keeper_leaves_when_the_master_says_so(desk, code, ended):
    """Ended, or superseded: nothing is restarted, and no note stays."""
    runs = desk.directory / "runs"
    script = f"open({str(runs)!r}, 'a').write('x'); raise SystemExit({code})"
    if ended:
        (desk.directory / "ended").touch()
    subprocess.run(
        [sys.executable, "-P", keeper.__file__, desk.directory, sys.executable, "-c", script],
        check=True,
        timeout=10,
        stdin=subprocess.DEVNULL,
    )
    eventually(lambda: not (desk.directory / "keeper.json").exists())
    assert runs.read_text() == "x"
    assert not (desk.directory / "ended").exists()


def test_logs_are_read_by_instance_and_no_other_file_is(desk):
    """The last lines, rotated ones included; a path is no instance."""
    folder = desk.directory / "logs" / "echo-0001"
    folder.mkdir(parents=True)
    (folder / "triton.stderr.1").write_text("a\nb\n")
    (folder / "triton.stderr").write_text("c\nd\n")
    deployer = desk.deployer()
    assert list(deployer.logs(REF, "echo-0001", 3)) == ["b", "c", "d"]
    assert list(deployer.logs(REF, "echo-0001", None)) == ["a", "b", "c", "d"]
    for wrong in ("echo-0002", "../../api_token", ".."):
        with pytest.raises(NotFoundError):
            deployer.logs(REF, wrong, None)


def test_end_kills_only_what_belongs_to_the_cluster(desk):
    """A reused pid in ref.json is left alone."""
    write_ref(desk.directory, attrs.evolve(REF, pid=os.getpid(), pid_started=1))
    assert desk.deployer().find("echo") is None
    desk.deployer().end(REF)
    assert start_ticks(os.getpid())


def test_a_client_with_many_open_files_ends_a_cluster(desk):
    """A notebook: the numbers of new descriptors are beyond 1023."""
    desk.serve_without_master()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(4096, hard)), hard))
    many = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        desk.deployer().end(REF)
    finally:
        for descriptor in many:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert processes_of(desk.directory) == ()
