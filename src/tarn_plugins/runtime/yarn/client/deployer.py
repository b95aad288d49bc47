"""Start, find and end the master of a cluster on YARN, from a client without a JVM.

In a cluster's directory it keeps ``ref.json``, and files that a client needs next to it.
"""

import base64
import json
import os
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import attrs

from tarn.domain import ClusterSpec
from tarn.errors import LaunchError, NotFoundError, TarnError
from tarn.follow import MasterApi, Trust
from tarn.interfaces import ClientContext, ClusterRef, Ending, Finding, LaunchPlan, Progress, Staged
from tarn.plain.master_files import API_TOKEN, SCRAPE_TOKEN, TLS_CA, ref_in, written_ref
from tarn.plain.structure import from_record
from tarn.triton.folders import private_folder
from tarn_plugins.runtime.yarn import READS, YarnSettings, environment
from tarn_plugins.runtime.yarn.client import checks, reports
from tarn_plugins.runtime.yarn.client.hadoop_child import HadoopClient, start_child
from tarn_plugins.runtime.yarn.client.reports import ApplicationReport
from tarn_plugins.runtime.yarn.container import master_command, master_environ
from tarn_plugins.runtime.yarn.doctor import offer
from tarn_plugins.runtime.yarn.environment import INTERPRETER
from tarn_plugins.runtime.yarn.launch import shared_memory
from tarn_plugins.runtime.yarn.launch.instance import foresee
from tarn_plugins.runtime.yarn.staging import FETCHED

__all__ = ["YarnDeployer"]

# For one question: the child waits about 15 s for the RM, and a JVM takes 2 s to start.
LOOK_S = 45.0
# How long a master may wait for its container, and then take to register.
WAIT_S = 60.0
# For the submission itself: a few small files, and delegation tokens.
SUBMIT_S = 120.0
LOGS_S = 300.0
# The slowest rate of a copy to HDFS that is not considered broken.
SLOWEST_BYTES_PER_S = 2 * 2**20
END_S = 30.0
_POLL_S = 0.2
_ASK_AGAIN_S = 1.0
_SAY_AGAIN_S = 5.0
_FILES = ("ref.json", *FETCHED)


class YarnDeployer:
    """The ``Deployer`` of YARN. Any thread may use it.

    Args:
        settings: ``runtime.options``.
        context: The client's.
        hadoop: Asks YARN; None means a child process, started when first needed.
        master: Tests replace ``python -m tarn.master`` by it.
    """

    def __init__(
        self,
        settings: YarnSettings,
        context: ClientContext,
        hadoop: HadoopClient | None = None,
        master: Sequence[str] = (),
    ) -> None:
        self._settings, self._context = settings, context
        # The archive with the interpreter for the nodes; empty if that is a path on them.
        self._packed = environment.packed(settings.python)
        self._python = INTERPRETER if self._packed else settings.python or sys.executable
        self._master = list(master)
        self._hadoop = hadoop or start_child(settings, context)
        self._pause = threading.Event()
        # (application id, file) for files that a cluster does not have, to ask only once.
        self._absent: set[tuple[str, str]] = set()
        # (application id, instance id) -> container and host.
        self._containers_of: dict[tuple[str, str], tuple[str, str]] = {}

    def check(self, spec: ClusterSpec) -> tuple[Finding, ...]:
        """Ask YARN for everything that prevents or hampers *spec*; takes 2 to 4 s."""
        uri = spec.models.repository  # checked by the child if the nodes fetch it
        asked = {
            "repository": uri if urlsplit(uri).scheme in READS else None,
            "serve": list(spec.models.serve),
        }
        try:
            told = self._hadoop.ask("overview", LOOK_S, **asked)
        except TarnError as error:
            return (checks.from_error(error), *self._containers(spec, checks.YarnOverview()))
        overview = from_record(checks.YarnOverview, told)
        own = checks.findings(spec, self._settings.queue, self._python, overview)
        found = (*own, *self._containers(spec, overview))
        if self._packed:
            try:
                told = self._hadoop.ask("environment", LOOK_S, python=self._packed)
                found += tuple(Finding(**each) for each in told)
            except TarnError as error:
                found += (checks.from_error(error),)
        return found + offer.errors(self._hadoop, spec, self._settings, self._python, found)

    def plan(self, spec: ClusterSpec, staged: Staged) -> LaunchPlan:
        """Return the command, environment and files of the first instance."""
        return foresee(spec, staged, self._settings, self._context, self._python)

    def submit(self, spec: ClusterSpec, staged: Staged, files: Mapping[str, bytes]) -> ClusterRef:
        """Submit the application, and return once its master listens.

        An application that does not come up is ended. One whose state is unknown, or whose start is
        interrupted, continues, and is known to `tarn down` and `tarn status`.

        Raises:
            LaunchError: It did not come up, and was ended unless the message says otherwise.
            TimedOutError: It is unknown whether it came up; it was left alone.
        """
        archive, archive_bytes = self._environment()
        staged = self._within_reach(staged)
        files = {**files, "staged.json": json.dumps(attrs.asdict(staged)).encode()}
        self._say("submitting the application to YARN")
        answer = self._hadoop.ask("submit", SUBMIT_S, **self._order(spec, staged, files, archive))
        application_id = str(answer["application_id"])
        # From here on the application may outlive this process.
        directory = self._context.paths.cluster(spec.name)
        if API_TOKEN not in files:  # left by an earlier application that needed one
            (directory / API_TOKEN).unlink(missing_ok=True)
        keep(directory, reports.ref_of(ApplicationReport(application_id, "NEW"), spec.name), files)
        for note in answer["notes"]:
            self._say(note, note=True)
        # A node without a copy of the environment fetches and unpacks it first.
        within_s = WAIT_S + archive_bytes / SLOWEST_BYTES_PER_S
        outcome = self._running(spec.name, application_id, within_s)
        if isinstance(outcome, LaunchError):
            raise self._undone(spec.name, application_id, outcome)
        ref = reports.ref_of(outcome, spec.name)
        keep(directory, ref, {})
        return ref

    def find(self, name: str) -> ClusterRef | None:
        """Return the live application of this name, and fetch its files if they are missing."""
        directory = self._context.paths.cluster(name)
        kept = read_ref(directory)
        application_id = kept.application_id if kept else None
        told = self._hadoop.ask("find", LOOK_S, name=name, application_id=application_id)
        if told is None:
            return None
        report = from_record(ApplicationReport, told)
        if again := reports.starting_again(report):
            self._say(again)
        ref = reports.ref_of(report, name)
        if kept is not None and kept.application_id != ref.application_id:
            forget(directory, str(kept.application_id))  # files of a cluster that is over
            kept = None
        fetched = self._fetched(name, str(ref.application_id), directory)
        # Between two attempts there is no url; the last one is better than none.
        last = kept if kept is not None and ref.url is None else ref
        if fetched or last != kept:
            keep(directory, last, fetched)
        return ref

    def ended(self, name: str) -> Ending | None:
        """Return how the last application of this name ended; None if YARN forgot it."""
        told = self._hadoop.ask("last", LOOK_S, name=name)
        return None if told is None else reports.ending(from_record(ApplicationReport, told), name)

    def end(self, ref: ClusterRef) -> None:
        """Kill the application of *ref*, wait for its end, and remove its files."""
        if ref.application_id is not None:
            self._end(ref.name, ref.application_id, "ended by force: tarn down")

    def logs(self, ref: ClusterRef, instance_id: str, tail: int | None) -> Iterator[str]:
        """Yield the lines of every attempt's standard error, or of an instance's."""
        if ref.application_id is None:
            raise NotFoundError(f"{ref.name} has no application on YARN, and so no log")
        container_id, host = self._container(ref, instance_id) if instance_id else ("", "")
        with tempfile.TemporaryDirectory() as folder:
            into = Path(folder) / "log"
            found = self._hadoop.ask(
                "logs",
                LOGS_S,
                application_id=ref.application_id,
                instance_id=instance_id,
                container_id=container_id,
                host=host,
                into=str(into),
                tail=None if tail is None else max(1, tail),  # for 0, to see whether it exists
            )
            if not found:
                raise reports.no_log(ref, instance_id)
            with into.open(errors="replace", newline="\n") as log:
                lines = deque((line.rstrip("\n") for line in log), maxlen=tail)
        return iter(lines)

    def logged(self, ref: ClusterRef) -> tuple[str, ...]:
        """Return the ids that the master knows, and those whose logs YARN aggregated."""
        if ref.application_id is None:
            return ()
        told = self._hadoop.ask("logged", LOGS_S, application_id=ref.application_id)
        known = {str(item["id"]) for item in self._known_instances(ref) if item.get("container_id")}
        return tuple(sorted(known | set(told)))

    def put(self, local: Path, uri: str) -> tuple[str, bool]:
        """Copy a file to a Hadoop file system; see `Uploader`."""
        within_s = _patience_s(local.stat().st_size)
        where, there = self._hadoop.ask("put", within_s, local=str(local), uri=uri)
        return str(where), bool(there)

    def _containers(self, spec: ClusterSpec, overview: checks.YarnOverview) -> Iterator[Finding]:
        location = spec.models.repository
        local = () if "://" in location else shared_memory.stubs_at(Path(location))
        return checks.container_findings(spec, self._settings.docker, overview, local)

    def _environment(self) -> tuple[str, int]:
        """Return URI and size of the packed environment, uploaded if needed; ('', 0) without one.

        Raises:
            LaunchError: It cannot be read.
            ProviderError: The file system did not answer, or has no space.
        """
        if not self._packed:
            return "", 0
        amount = 0
        if environment.is_local(self._packed):
            local = Path(self._packed)
            amount = local.stat().st_size if local.is_file() else 0
            self._say(f"copying the packed environment ({amount / 2**20:,.0f} MiB) to the nodes")
        told = self._hadoop.ask("bring_environment", _patience_s(amount), python=self._packed)
        return str(told["uri"]), int(told["bytes"])

    def _within_reach(self, staged: Staged) -> Staged:
        """Return *staged*, uploaded to where the nodes can read it if it is local."""
        if staged.kind != "local":
            return staged
        amount = staged.bytes or 0
        self._say(f"copying {amount / 2**20:,.0f} MiB to where the nodes can read them")
        told = self._hadoop.ask("upload", _patience_s(amount), staged=attrs.asdict(staged))
        return Staged(**told)

    def _order(
        self, spec: ClusterSpec, staged: Staged, files: Mapping[str, bytes], packed: str
    ) -> dict[str, Any]:
        """Return the parts of the question ``submit``."""
        environ = master_environ(self._settings, spec.master.memory_mib)
        return {
            "name": spec.name,
            "queue": self._settings.queue,
            "priority": self._settings.priority,
            "memory_mib": spec.master.memory_mib,
            "vcores": spec.master.vcores,
            "max_attempts": spec.master.max_attempts,
            "node_label": spec.master.node_label,
            "python": self._python,
            "argv": self._master or master_command(self._python, environ),
            "environ": environ,
            "files": {name: base64.b64encode(data).decode() for name, data in files.items()},
            "environment": packed,
            "log_bytes": spec.log.master_max_size_mib * 2**20,
            "file_systems": [
                uri for uri in (staged.location if staged.kind == "localize" else "", packed) if uri
            ],
        }

    def _running(
        self, name: str, application_id: str, within_s: float
    ) -> ApplicationReport | LaunchError:
        """Wait until the master listens; return its report, or the error if it never will.

        Raises:
            TimedOutError: YARN does not answer, so the result is unknown.
        """
        deadline_s, said, say_s = self._now_s() + WAIT_S, "", 0.0
        granted = False
        while True:
            report = self._heard(name, application_id, deadline_s)
            if report is None:
                return reports.unknown_application(application_id)
            if reports.ref_of(report, name).url is not None:
                return report
            if reason := reports.hopeless(report):
                return reports.failed_start(application_id, reason)
            if report.container_granted and not granted:  # the time of the master itself begins
                granted, deadline_s = True, self._now_s() + within_s
            if self._now_s() > deadline_s:
                return reports.late_start(report, within_s if granted else WAIT_S, granted=granted)
            waits = reports.waiting(report)
            if waits != said or self._now_s() > say_s:
                self._say(waits)
                said, say_s = waits, self._now_s() + _SAY_AGAIN_S
            self._pause.wait(_POLL_S)

    def _heard(self, name: str, application_id: str, deadline_s: float) -> ApplicationReport | None:
        """Ask until there is an answer; a failover of the RM does not concern the master."""
        while True:
            try:
                return self._report(application_id)
            except (TarnError, OSError) as error:
                if self._now_s() > deadline_s:
                    raise reports.unheard_start(name, application_id, error) from error
                self._say(f"YARN does not answer, retrying: {error}")
            self._pause.wait(_ASK_AGAIN_S)

    def _end(self, name: str, application_id: str, why: str) -> None:
        self._hadoop.ask("kill", LOOK_S, application_id=application_id, why=why)
        deadline_s = self._now_s() + END_S
        while (found := self._report(application_id)) is not None and reports.alive(found):
            if self._now_s() > deadline_s:
                raise LaunchError(
                    "yarn",
                    f"{application_id} is still there {END_S:g} s after it was killed",
                    next_step=f"Repeat it with `yarn application -kill {application_id}`",
                )
            self._pause.wait(_POLL_S)
        self._hadoop.ask("remove", LOOK_S, name=name, application_id=application_id)
        forget(self._context.paths.cluster(name), application_id)

    def _report(self, application_id: str) -> ApplicationReport | None:
        told = self._hadoop.ask("report", LOOK_S, application_id=application_id)
        return None if told is None else from_record(ApplicationReport, told)

    def _undone(self, name: str, application_id: str, verdict: LaunchError) -> LaunchError:
        """End the application, and return *verdict*, with a note if that failed."""
        try:
            self._end(name, application_id, f"{reports.GIVEN_UP}{verdict.found}")
        except (TarnError, OSError) as error:
            return reports.not_ended(application_id, verdict, error)
        return verdict

    def _fetched(self, name: str, application_id: str, directory: Path) -> dict[str, bytes]:
        """Return the files of the cluster that are missing here, from its staging directory."""
        found = {}
        for file in FETCHED:
            if (directory / file).exists() or (application_id, file) in self._absent:
                continue
            try:
                told = self._hadoop.ask("read", LOOK_S, name=name, file=file)
            except TarnError as error:  # the cluster is found nevertheless
                self._say(str(error), note=True)
                continue
            if told is None:
                self._absent.add((application_id, file))
            else:
                found[file] = base64.b64decode(told)
        return found

    def _container(self, ref: ClusterRef, instance_id: str) -> tuple[str, str]:
        """Return an instance's container and host, from the master; ('', '') if unknown."""
        key = (str(ref.application_id), instance_id)
        if key not in self._containers_of:
            for item in self._known_instances(ref):
                if item.get("id") == instance_id and item.get("container_id"):
                    # An id is never used again, so the answer stays valid.
                    where = str(item["container_id"]), str(item.get("node") or "")
                    self._containers_of[key] = where
        return self._containers_of.get(key, ("", ""))

    def _known_instances(self, ref: ClusterRef) -> tuple[Mapping[str, Any], ...]:
        """Return the master's present and ended instances; none if it does not answer."""
        present = self.find(ref.name)
        if present is None or present.url is None or present.application_id != ref.application_id:
            return ()
        directory = self._context.paths.cluster(ref.name)
        path, authority = directory / API_TOKEN, directory / TLS_CA
        trust = Trust(authority if authority.is_file() else None)
        try:
            token = path.read_text("ascii").strip() if path.exists() else None
            with MasterApi(present.url, token, trust=trust) as api:
                status = api.status()
        except (TarnError, OSError, ValueError):
            return ()
        return (*status.get("instances", ()), *status.get("ended", ()))

    def _say(self, message: str, *, note: bool = False) -> None:
        self._context.progress(Progress("launching", message, note=note))

    def _now_s(self) -> float:
        return self._context.clock.now_s()


def _patience_s(amount: int) -> float:
    """Return the time limit for a copy of *amount* bytes."""
    return SUBMIT_S + amount / SLOWEST_BYTES_PER_S


def keep(directory: Path, ref: ClusterRef, files: Mapping[str, bytes]) -> None:
    """Write *files* and *ref* to *directory*."""
    # The reference last, so that a process that finds it also finds the token.
    private_folder(directory)
    for name in set(files) & set(_FILES):
        _replace(directory / name, files[name])
    _replace(directory / "ref.json", written_ref(ref))


def read_ref(directory: Path) -> ClusterRef | None:
    """Return the written reference; None when it is missing or unreadable."""
    try:
        return ref_in((directory / "ref.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return None


def forget(directory: Path, application_id: str) -> None:
    """Remove the files of this application, but not those of a later one."""
    ref = read_ref(directory)
    if ref is None or ref.application_id != application_id:
        return
    for name in (*_FILES, SCRAPE_TOKEN):
        (directory / name).unlink(missing_ok=True)
    if not any(directory.iterdir()):
        directory.rmdir()


def _replace(path: Path, data: bytes) -> None:
    """Replace the content of *path* by *data*, atomically and fsynced, with mode 0600."""
    # A file of its own for each thread, since two may write at once; mkstemp gives it mode 0600.
    descriptor, made = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".new", dir=path.parent)
    temporary = Path(made)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 (a descriptor has no path)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
