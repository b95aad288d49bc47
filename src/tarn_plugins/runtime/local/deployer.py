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

from tarn.domain import ClusterSpec, Endpoint, Epoch, Launch
from tarn.errors import LaunchError, RefusedError
from tarn.interfaces import ClientContext, ClusterRef, Ending, Finding, LaunchPlan, Progress, Staged
from tarn.plain.master_files import MASTER_FILES
from tarn.triton import binary
from tarn.triton.command import argv
from tarn.triton.folders import no_room, private_folder
from tarn.triton.log_files import last_lines
from tarn.triton.restricted import PLANNED
from tarn_plugins.runtime.local import checks, keeper, state
from tarn_plugins.runtime.local.files import (
    Records,
    clear,
    living_ref,
    logged,
    logs_of,
    read_keeper,
    read_ref,
    remove_files,
)
from tarn_plugins.runtime.local.instances import environment, shm_prefix
from tarn_plugins.runtime.local.machine import (
    LOOPBACK,
    MASTER_VARIABLE,
    alive,
    kill,
    masters_of,
    processes_of,
)
from tarn_plugins.runtime.local.processes import LOG
from tarn_plugins.runtime.local.state import replace_file

__all__ = ["LocalDeployer"]

# From the keeper's start to the master's first answer; measured: about one second.
MASTER_TIMEOUT_S = 20.0
# How long Tritons may take to exit when a cluster is ended by force; an idle one takes 2.5 s.
END_TIMEOUT_S = 5.0
# Added when the master first queries required discoveries, which have 30 s each.
REACH_TIMEOUT_S = 35.0
_POLL_S = 0.05
_LAST_LINES = 15
_PRIVATE = 0o700

_PORTS = tuple(f"--{service}-port=0" for service in ("http", "grpc", "metrics"))


class LocalDeployer:
    """The ``Deployer`` of one machine."""

    def __init__(self, context: ClientContext, master: Sequence[str] = ()) -> None:
        self._context = context
        # Tests replace ``python -m tarn.master DIRECTORY``, which the keeper runs.
        self._master = tuple(master)

    def check(self, spec: ClusterSpec) -> tuple[Finding, ...]:
        """Return what this machine lacks to run *spec*."""
        return tuple(checks.findings(spec, self._context.environ, self._context.paths.cache))

    def plan(self, spec: ClusterSpec, staged: Staged) -> LaunchPlan:
        """Return the command, environment and files of the first instance."""
        return foresee(spec, staged, self._context)

    def submit(self, spec: ClusterSpec, staged: Staged, files: Mapping[str, bytes]) -> ClusterRef:
        """Start keeper and master, and return once the master listens."""
        directory = self._context.paths.cluster(spec.name)
        fresh = not directory.exists()
        private_folder(directory)
        with _alone(directory, spec.name):
            if _keeper_alive(directory) or living_ref(directory):
                raise _name_in_use(spec.name, "runs already")
            for finding in checks.port(spec):
                raise LaunchError("local", finding.found, code=finding.code, where=finding.where)
            _remove_stale(directory)
            required = any(discovery.required for discovery in spec.discovery)
            within_s = MASTER_TIMEOUT_S + (REACH_TIMEOUT_S if required else 0.0)
            try:
                return self._begin(directory, files, within_s)
            except (LaunchError, OSError) as error:
                _undo(directory, fresh=fresh)
                lacking = no_room(error, directory) if isinstance(error, OSError) else None
                if lacking is not None:
                    raise lacking from error
                raise

    def find(self, name: str) -> ClusterRef | None:
        """Return the cluster *name* if its master, keeper or an instance is alive."""
        directory = self._context.paths.cluster(name)
        if (living := living_ref(directory)) is not None:
            return living
        ref = read_ref(directory)
        lost = attrs.evolve(
            ref or ClusterRef(name, "local", Epoch(0, 0)), url=None, pid=None, pid_started=None
        )
        # A Triton without a readable record is still an orphan, whose address is unknown.
        records, _ = Records(directory / "instances").read()
        where = {record.instance_id: record.endpoint.http for record in records}
        leaders = (p.instance_id for p in processes_of(directory) if p.leader)
        orphans = tuple(sorted((id_, where.get(id_, "")) for id_ in leaders))
        if _keeper_alive(directory):
            return attrs.evolve(lost, orphans=orphans, restarts=ref is not None)
        return attrs.evolve(lost, orphans=orphans) if orphans else None

    def ended(self, name: str) -> Ending | None:
        """Return None: a cluster that ended here leaves only its logs."""
        return None

    def end(self, ref: ClusterRef) -> None:
        """Kill the cluster *ref*, and remove its files except the logs."""
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
        """Yield the lines of an instance's log, or of the master's for ''."""
        paths = logs_of(self._context.paths.cluster(ref.name), instance_id)
        return _lines(paths) if tail is None else iter(last_lines(paths, tail)[0])

    def logged(self, ref: ClusterRef) -> tuple[str, ...]:
        """Return the ids of the instances that have logs, also of earlier clusters."""
        return logged(self._context.paths.cluster(ref.name))

    def _begin(self, directory: Path, files: Mapping[str, bytes], within_s: float) -> ClusterRef:
        log = directory / "logs" / "master.log"
        log.parent.mkdir(mode=_PRIVATE, exist_ok=True)
        for name in set(MASTER_FILES) - set(files):  # left by an earlier start
            (directory / name).unlink(missing_ok=True)
        for name, data in files.items():
            replace_file(directory / name, data)
        begun = state.begin_epoch(directory)
        before = _size(log)
        try:
            self._start_keeper(directory, log)
            return self._wait(directory, begun, within_s)
        except _StartError as error:
            raise _start_failed(log, str(error), before) from error

    def _start_keeper(self, directory: Path, log: Path) -> None:
        self._context.progress(Progress("launching", "starting the master"))
        # By its path, not as a module, so that it loads only the standard library.
        command = [sys.executable, "-P", keeper.__file__, str(directory), *self._master]
        with log.open("ab") as output:
            begun = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
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


@contextlib.contextmanager
def _alone(directory: Path, name: str) -> Iterator[None]:
    # The directory is locked, not a file in it, so that the lock leaves no file behind.
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _name_in_use(name, "is being started by another process") from None
        yield
    finally:
        os.close(descriptor)


def _name_in_use(name: str, what: str) -> RefusedError:
    return RefusedError(
        f"{name} {what}",
        code="TARN-2103",
        next_step=f"`tarn status -c {name}` shows it",
    )


class _StartError(Exception):
    """The keeper or the master failed to start; the message names which, and how."""


def _start_failed(log: Path, what: str, before: int) -> LaunchError:
    """Return the error with the last lines that this start wrote, after *before* bytes."""
    with contextlib.suppress(OSError), log.open("rb") as output:
        output.seek(before if before <= _size(log) else 0)  # a shorter file was rotated
        lines = output.read().decode("utf-8", "replace").splitlines()[-_LAST_LINES:]
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


def _undo(directory: Path, *, fresh: bool) -> None:
    """Remove the traces of a failed start, and the directory if it is *fresh*."""
    _kill_master(directory)
    if processes_of(directory):  # instances of an earlier cluster, which need these files
        return
    remove_files(directory)
    _remove_stale(directory)
    for folder in (directory / "logs", directory) if fresh else ():
        with contextlib.suppress(OSError):  # a log stays, and so does its folder
            folder.rmdir()


def _kill_master(directory: Path) -> None:
    ref = read_ref(directory)
    for _ in range(2):  # a keeper may have started another master during the first pass
        for pid, start in masters_of(directory):
            kill(pid, start)
    if ref is not None and ref.pid is not None and ref.pid_started is not None:
        kill(ref.pid, ref.pid_started)


def _end_instances(directory: Path) -> None:
    """Send SIGTERM to every Triton, wait, kill the rest, and remove their shared memory."""
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
        # Not `select`, which accepts no descriptor above 1023; a notebook may have more files open.
        ended = select.poll()
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


def foresee(spec: ClusterSpec, staged: Staged, context: ClientContext) -> LaunchPlan:
    """Return command, environment and files of the first instance; write nothing."""
    directory, instance_id = context.paths.cluster(spec.name), f"{spec.name}-0001"
    try:
        program = binary.foresee(spec.triton.binary, context.environ, context.paths.cache)
    except LaunchError:  # `LocalDeployer.check` reports it; the plan shows the bare name
        program = binary.TritonProgram("tritonserver")
    launch = Launch(spec.models, spec.triton, spec.instance, staged.location, "", keys=PLANNED)
    triton = spec.triton
    ports = (port or 0 for port in (triton.http_port, triton.grpc_port, triton.metrics_port))
    command = argv(
        launch,
        Endpoint(LOOPBACK, *ports),
        program.path,
        bind=triton.bind or LOOPBACK,
        server_id=instance_id,
        backend_directory=program.backend_directory,
        cache_directory=program.cache_directory,
        shm_prefix=shm_prefix(directory, instance_id),
    )
    free = tuple(w.removesuffix("0") + "free" if w in _PORTS else w for w in command)
    chosen = tuple(["free"] * spec.instance.resources.gpus)
    return LaunchPlan(
        commands=(free,),
        environ=environment(
            launch,
            instance_id=instance_id,
            directory=directory,
            program=program,
            gpus=chosen,
            inherited={},
        ),
        files=_files(spec, directory, instance_id, staged),
    )


def _files(spec: ClusterSpec, directory: Path, instance_id: str, staged: Staged) -> dict[str, str]:
    logs = directory / "logs"
    token = {} if spec.api.token == "none" else {"api token": str(directory / "api_token")}  # noqa: S105 (a kind)
    return {
        "models": staged.location,
        "cluster": str(directory),
        "spec": str(directory / "spec.yaml"),
        **token,
        "state": str(directory / "state-*.json"),
        "log of the master": str(logs / "master.log"),
        "log of the first instance": str(logs / instance_id / LOG),
    }
