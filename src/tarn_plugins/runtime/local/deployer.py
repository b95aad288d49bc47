"""Start, find and end the master of a cluster on this machine, from a client process."""

import contextlib
import fcntl
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import attrs

from tarn.domain import ClusterSpec, Epoch
from tarn.domain.master_files import MASTER_FILES
from tarn.errors import LaunchError, RefusedError
from tarn.interfaces import (
    ClientContext,
    ClusterRef,
    Ending,
    Finding,
    LaunchPlan,
    Progress,
    Staged,
)
from tarn.triton.folders import no_room, private_folder
from tarn.triton.log_files import last_lines
from tarn_plugins.runtime.local import checks, epoch, keeper
from tarn_plugins.runtime.local.atomic import replace_file
from tarn_plugins.runtime.local.instance_logs import logged, logs_of
from tarn_plugins.runtime.local.leftovers import clear, read_keeper, remove_files
from tarn_plugins.runtime.local.plan import foresee
from tarn_plugins.runtime.local.procfs import (
    MASTER_VARIABLE,
    alive,
    kill,
    masters_of,
    processes_of,
)
from tarn_plugins.runtime.local.records import Records
from tarn_plugins.runtime.local.ref import read_ref

__all__ = ["LocalDeployer"]

MASTER_TIMEOUT_S = 20.0
"""From the keeper's start to a master that answers; it takes about one second."""
END_TIMEOUT_S = 5.0
"""How long Tritons may finish when a cluster is ended by force; an idle one takes 2.5 s."""
REACH_TIMEOUT_S = 35.0
"""More for a master that asks its required discoveries first; each has 30 s."""
_POLL_S = 0.05
_LAST_LINES = 15
_PRIVATE = 0o700


class LocalDeployer:
    """The ``Deployer`` of one machine."""

    def __init__(self, context: ClientContext, master: Sequence[str] = ()) -> None:
        self._context = context
        self._master = tuple(master)
        """What the keeper runs in place of ``python -m tarn.master DIRECTORY``; for tests."""

    def check(self, spec: ClusterSpec) -> tuple[Finding, ...]:
        """Look at tritonserver, memory, GPUs and the fixed port of this machine."""
        return tuple(checks.findings(spec, self._context.environ, self._context.paths.cache))

    def plan(self, spec: ClusterSpec, staged: Staged) -> LaunchPlan:
        """Say what the first instance would be started with, and where files would lie."""
        return foresee(spec, staged, self._context)

    def submit(self, spec: ClusterSpec, staged: Staged, files: Mapping[str, bytes]) -> ClusterRef:
        """Start keeper and master; returns once the master listens. Later errors leave it alone."""
        directory = self._context.paths.cluster(spec.name)
        fresh = not directory.exists()
        private_folder(directory)
        with _alone(directory, spec.name):
            if _keeper_alive(directory) or _master_alive(directory):
                raise _running(spec.name, "runs already")
            for finding in checks.port(spec):
                raise LaunchError("local", finding.found, code=finding.code, where=finding.where)
            _remove_stale(directory)
            try:
                begun = self._prepare(directory, files)
                return self._begin(directory, begun, _patience_s(spec))
            except (LaunchError, OSError) as error:
                _undo(directory)
                if fresh:
                    _remove_empty(directory)
                lacking = no_room(error, directory) if isinstance(error, OSError) else None
                if lacking is not None:
                    raise lacking from error
                raise

    def find(self, name: str) -> ClusterRef | None:
        """Return the cluster of this name if its master, its keeper or an instance is alive."""
        directory = self._context.paths.cluster(name)
        ref = read_ref(directory)
        if ref is not None and _master_alive(directory):
            return ref
        lost = attrs.evolve(
            ref or ClusterRef(name, "local", Epoch(0, 0)), url=None, pid=None, pid_started=None
        )
        orphans = _orphans(directory)
        if _keeper_alive(directory):
            return attrs.evolve(lost, orphans=orphans, restarts=ref is not None)
        return attrs.evolve(lost, orphans=orphans) if orphans else None

    def ended(self, name: str) -> Ending | None:
        """Return None: what ended here leaves nothing but its logs."""
        return None

    def end(self, ref: ClusterRef) -> None:
        """End keeper, master and instances of *ref* by force, and remove all but the logs."""
        directory = self._context.paths.cluster(ref.name)
        present = read_ref(directory)
        if not directory.exists() or (
            present and ref.epoch.incarnation < present.epoch.incarnation
        ):
            return  # nothing is left of it, or a later cluster has its name
        _kill_master(directory)
        _end_instances(directory)
        remove_files(directory)
        _remove_stale(directory)

    def logs(self, ref: ClusterRef, instance_id: str, tail: int | None) -> Iterator[str]:
        """Yield the lines that Triton wrote to standard error, or those of the master's log."""
        paths = logs_of(self._context.paths.cluster(ref.name), instance_id)
        return _lines(paths) if tail is None else iter(last_lines(paths, tail)[0])

    def logged(self, ref: ClusterRef) -> tuple[str, ...]:
        """Return the ids of the instances whose logs lie here, also of earlier clusters."""
        return logged(self._context.paths.cluster(ref.name))

    def _prepare(self, directory: Path, files: Mapping[str, bytes]) -> Epoch:
        (directory / "logs").mkdir(mode=_PRIVATE, exist_ok=True)
        for name in set(MASTER_FILES) - set(files):  # an earlier start may have brought it
            (directory / name).unlink(missing_ok=True)
        for name, data in files.items():
            replace_file(directory / name, data)
        return epoch.begin(directory)

    def _begin(self, directory: Path, begun: Epoch, within_s: float) -> ClusterRef:
        before = _size(directory / "logs" / "master.log")
        try:
            self._start_keeper(directory)
            return self._wait(directory, begun, within_s)
        except _StartError as error:
            raise _died(directory, str(error), before) from error

    def _start_keeper(self, directory: Path) -> None:
        self._context.progress(Progress("launching", "starting the master"))
        # By its path, not as a module: it then loads nothing but the standard library.
        command = [sys.executable, "-P", keeper.__file__, str(directory), *self._master]
        with (directory / "logs" / "master.log").open("ab") as log:
            begun = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**self._context.environ, MASTER_VARIABLE: str(directory)},
                cwd=directory,
                start_new_session=True,
                timeout=MASTER_TIMEOUT_S,
                check=False,
            )
        if begun.returncode:
            raise _StartError(f"keeper ended with code {begun.returncode}")

    def _wait(self, directory: Path, begun: Epoch, within_s: float) -> ClusterRef:
        deadline_s = self._context.clock.now_s() + within_s
        pause = threading.Event()
        while self._context.clock.now_s() < deadline_s:
            ref = read_ref(directory)
            if ref is not None and ref.epoch > begun and ref.url is not None:
                return ref
            kept = read_keeper(directory)
            if kept is None:
                raise _StartError("keeper left")
            if kept.exits:
                raise _StartError(f"master ended with code {kept.exits[-1]}")
            pause.wait(_POLL_S)
        raise _StartError(f"master did not answer within {within_s:g} s")


def _patience_s(spec: ClusterSpec) -> float:
    required = any(discovery.required for discovery in spec.discovery)
    return MASTER_TIMEOUT_S + (REACH_TIMEOUT_S if required else 0.0)


def _orphans(directory: Path) -> tuple[tuple[str, str], ...]:
    """Return (instance id, ``host:port``) of each Triton that runs for *directory*."""
    records, _ = Records(directory / "instances").read()
    where = {record.instance_id: record.endpoint.http for record in records}
    leaders = (p.instance_id for p in processes_of(directory) if p.leader)
    return tuple(sorted((id_, where.get(id_, "")) for id_ in leaders))


@contextlib.contextmanager
def _alone(directory: Path, name: str) -> Iterator[None]:
    """Be the only `up` of this name: the directory itself is the lock, so no file is left."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _running(name, "is being started by another process") from None
        yield
    finally:
        os.close(descriptor)


def _running(name: str, what: str) -> RefusedError:
    return RefusedError(
        f"{name} {what}",
        code="TARN-2103",
        next_step=f"`tarn status -c {name}` shows it",
    )


class _StartError(Exception):
    """The start failed; the message says who, and how."""


def _died(directory: Path, what: str, before: int) -> LaunchError:
    """Return the error with the last words of this start: what came *before* is another's."""
    log = directory / "logs" / "master.log"
    with contextlib.suppress(OSError), log.open("rb") as words:
        words.seek(before if before <= _size(log) else 0)  # a shorter one is a new one
        lines = words.read().decode("utf-8", "replace").splitlines()[-_LAST_LINES:]
        what = "\n  ".join([f"{what}; its last output:", *lines]) if lines else what
    return LaunchError("local", f"the {what}", next_step=f"Log: {log}")


def _size(log: Path) -> int:
    try:
        return log.stat().st_size
    except FileNotFoundError:
        return 0


def _keeper_alive(directory: Path) -> bool:
    kept = read_keeper(directory)
    return kept is not None and alive(kept.pid, kept.start)


def _master_alive(directory: Path) -> bool:
    ref = read_ref(directory)
    return ref is not None and alive(ref.pid, ref.pid_started)


def _undo(directory: Path) -> None:
    """Leave nothing behind, but instances that were there before, and what they need."""
    _kill_master(directory)
    if processes_of(directory):
        return
    remove_files(directory)
    _remove_stale(directory)


def _remove_empty(directory: Path) -> None:
    """Remove a cluster's directory that holds nothing, not even a log."""
    for folder in (directory / "logs", directory):
        with contextlib.suppress(OSError):
            folder.rmdir()


def _kill_master(directory: Path) -> None:
    """End keeper and master; twice, since a keeper may start one while we look."""
    ref = read_ref(directory)
    for _ in range(2):
        for pid, start in masters_of(directory):
            kill(pid, start)
    if ref is not None and ref.pid is not None and ref.pid_started is not None:
        kill(ref.pid, ref.pid_started)


def _end_instances(directory: Path) -> None:
    """Ask every Triton to end, wait a little, then kill what is left and its shared memory."""
    descriptors = []
    for process in processes_of(directory):
        if process.leader:
            with contextlib.suppress(ProcessLookupError):
                descriptor = os.pidfd_open(process.pid)
                descriptors.append(descriptor)
                signal.pidfd_send_signal(descriptor, signal.SIGTERM)
                signal.pidfd_send_signal(descriptor, signal.SIGCONT)
    deadline_s = time.monotonic() + END_TIMEOUT_S
    for descriptor in descriptors:
        ended = select.poll()  # a notebook has many files open: `select` takes no number over 1023
        ended.register(descriptor, select.POLLIN)
        ended.poll(max(0.0, deadline_s - time.monotonic()) * 1000)
        os.close(descriptor)
    clear(directory)


def _remove_stale(directory: Path) -> None:
    for name in ("ended", "keeper.json", "ref.json"):
        (directory / name).unlink(missing_ok=True)


def _lines(paths: Sequence[Path]) -> Iterator[str]:
    for path in paths:
        with path.open(errors="replace") as log:
            yield from (line.rstrip("\n") for line in log)
