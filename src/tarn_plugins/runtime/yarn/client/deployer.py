"""Start, find and end the master of a cluster on YARN, from a client without a JVM."""

import base64
import json
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import attrs
from cattrs.preconf.json import make_converter

from tarn import errors
from tarn.domain import ClusterSpec
from tarn.domain.master_files import API_TOKEN, TLS_CA
from tarn.errors import LaunchError, NotFoundError, TarnError
from tarn.follow import MasterApi, Trust
from tarn.interfaces import (
    ClientContext,
    ClusterRef,
    Ending,
    Finding,
    LaunchPlan,
    Progress,
    Staged,
)
from tarn_plugins.runtime.yarn import READS, Kerberos, YarnSettings
from tarn_plugins.runtime.yarn.client import (
    checks,
    container_checks,
    environments,
    plan,
    reports,
    verdicts,
)
from tarn_plugins.runtime.yarn.client.hadoop_child import HadoopChild, HadoopClient
from tarn_plugins.runtime.yarn.client.ref import FETCHED, forget, keep, read_ref
from tarn_plugins.runtime.yarn.client.reports import ApplicationReport
from tarn_plugins.runtime.yarn.doctor import rules
from tarn_plugins.runtime.yarn.environment import INTERPRETER

__all__ = ["YarnDeployer", "start_child"]

LOOK_S = 45.0
"""For one question; the child's own patience with the RM is about 15 s, and a JVM takes 2 s."""
WAIT_S = 60.0
"""How long a master may wait for its container, and then for its first word."""
SUBMIT_S = 120.0
"""For the submission itself: a few small files, and delegation tokens."""
LOGS_S = 300.0
SLOWEST_BYTES_PER_S = 2 * 2**20
"""A copy to HDFS over a slow line; slower is taken for broken."""
END_S = 30.0
_POLL_S = 0.2
_ASK_AGAIN_S = 1.0
_SAY_AGAIN_S = 5.0

_converter = make_converter()


class YarnDeployer:
    """The ``Deployer`` of YARN. Any thread.

    Args:
        settings: ``runtime.options``.
        context: The client's.
        hadoop: Asks YARN; None: a child process, started when first needed.
        master: What runs in place of ``python -m tarn.master``; for tests.
    """

    def __init__(
        self,
        settings: YarnSettings,
        context: ClientContext,
        hadoop: HadoopClient | None = None,
        master: Sequence[str] = (),
    ) -> None:
        self._settings, self._context = settings, context
        self._packed = environments.packed(settings.python)
        """The archive with the interpreter for the nodes; empty: a path of theirs."""
        self._python = INTERPRETER if self._packed else settings.python or sys.executable
        self._master = list(master) or plan.master_command(self._python)
        self._hadoop = hadoop or start_child(settings, context)
        self._pause = threading.Event()
        self._absent: set[tuple[str, str]] = set()
        """(application id, file) that a cluster has not, such as a token: asked for once."""
        self._containers_of: dict[tuple[str, str], tuple[str, str]] = {}
        """(application id, instance id) to container and host."""

    def check(self, spec: ClusterSpec) -> tuple[Finding, ...]:
        """Ask YARN what would keep *spec* from running; takes 2 to 4 s."""
        try:
            told = self._hadoop.ask("overview", LOOK_S, **_repository(spec))
        except TarnError as error:
            return (checks.from_error(error), *self._containers(spec, checks.YarnOverview()))
        overview = _converter.structure(told, checks.YarnOverview)
        own = checks.findings(spec, self._settings.queue, self._python, overview)
        found = (*own, *self._containers(spec, overview))
        found += environments.findings(self._hadoop, self._packed, LOOK_S)
        return found + rules.errors(self._hadoop, spec, self._settings, self._python, found)

    def plan(self, spec: ClusterSpec, staged: Staged) -> LaunchPlan:
        """Say what the first instance would be started with, and where files would lie."""
        return plan.foresee(spec, staged, self._settings, self._context, self._python)

    def submit(self, spec: ClusterSpec, staged: Staged, files: Mapping[str, bytes]) -> ClusterRef:
        """Submit the application; returns once its master listens.

        An application that does not come up is ended. One of which YARN tells nothing goes on,
        and so does one whose start is interrupted: it is kept, for `tarn down` and `tarn status`.

        Raises:
            LaunchError: It did not come up, and was ended; or the message says that it was not.
            TimedOutError: YARN does not say whether it came up; it was left alone.
        """
        packed = environments.bring(self._hadoop, self._packed, _patience_s, self._say)
        staged = self._within_reach(staged)
        files = {**files, "staged.json": json.dumps(attrs.asdict(staged)).encode()}
        self._say("submitting the application to YARN")
        answer = self._hadoop.ask(
            "submit", SUBMIT_S, **self._order(spec, staged, files, packed.uri)
        )
        application_id = str(answer["application_id"])
        # From here on the application may live although this process ends.
        directory = self._context.paths.cluster(spec.name)
        if API_TOKEN not in files:  # of an earlier application, which asked for one
            (directory / API_TOKEN).unlink(missing_ok=True)
        keep(directory, reports.ref_of(ApplicationReport(application_id, "NEW"), spec.name), files)
        for note in answer["notes"]:
            self._say(f"note: {note}")
        # A node that has not had the environment yet copies and unpacks it first.
        within_s = WAIT_S + packed.bytes / SLOWEST_BYTES_PER_S
        outcome = self._running(spec.name, application_id, within_s)
        if isinstance(outcome, LaunchError):
            raise self._undone(spec.name, application_id, outcome)
        ref = reports.ref_of(outcome, spec.name)
        keep(directory, ref, {})
        return ref

    def find(self, name: str) -> ClusterRef | None:
        """Return the live application of this name; what this machine lacks of it is fetched."""
        directory = self._context.paths.cluster(name)
        kept = read_ref(directory)
        application_id = kept.application_id if kept else None
        told = self._hadoop.ask("find", LOOK_S, name=name, application_id=application_id)
        if told is None:
            return None
        report = _converter.structure(told, ApplicationReport)
        if again := reports.starting_again(report):
            self._say(again)
        ref = reports.ref_of(report, name)
        if kept is not None and kept.application_id != ref.application_id:
            forget(directory, str(kept.application_id))  # files of a cluster that is over
            kept = None
        fetched = self._fetched(name, str(ref.application_id), directory)
        # between two attempts there is no url: the last one is more than none
        last = kept if kept is not None and ref.url is None else ref
        if fetched or last != kept:
            keep(directory, last, fetched)
        return ref

    def ended(self, name: str) -> Ending | None:
        """Return how the last application of this name ended, while YARN remembers it."""
        told = self._hadoop.ask("last", LOOK_S, name=name)
        return (
            None
            if told is None
            else reports.ending(_converter.structure(told, ApplicationReport), name)
        )

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
                tail=None if tail is None else max(1, tail),  # for none of it, too: is it there?
            )
            if not found:
                raise verdicts.no_log(ref, instance_id)
            with into.open(errors="replace", newline="\n") as log:
                lines = deque((line.rstrip("\n") for line in log), maxlen=tail)
        return iter(lines)

    def logged(self, ref: ClusterRef) -> tuple[str, ...]:
        """Return the ids that the master knows, and those in what YARN has collected."""
        if ref.application_id is None:
            return ()
        told = self._hadoop.ask("logged", LOGS_S, application_id=ref.application_id)
        known = {str(item["id"]) for item in self._known_instances(ref) if item.get("container_id")}
        return tuple(sorted(known | set(told)))

    def put(self, local: Path, uri: str) -> tuple[str, bool]:
        """Copy a file to a Hadoop file system: a `Uploader`'s promise."""
        within_s = _patience_s(local.stat().st_size)
        where, there = self._hadoop.ask("put", within_s, local=str(local), uri=uri)
        return str(where), bool(there)

    def _containers(self, spec: ClusterSpec, overview: checks.YarnOverview) -> Iterator[Finding]:
        local = container_checks.stubs(spec)
        return container_checks.findings(spec, self._settings.docker, overview, local)

    def _within_reach(self, staged: Staged) -> Staged:
        """Return the repository where the nodes can read it: a copy of this machine is brought."""
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
        order = {
            "name": spec.name,
            "queue": self._settings.queue,
            "priority": self._settings.priority,
            "memory_mib": spec.master.memory_mib,
            "vcores": spec.master.vcores,
            "max_attempts": spec.master.max_attempts,
            "node_label": spec.master.node_label,
        }
        return {
            "order": order,
            "python": self._python,
            "argv": self._master,
            "environ": plan.master_environ(self._settings, spec.master.memory_mib),
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
        """Wait until the master has said where it listens; an error returned is a verdict.

        Raises:
            TimedOutError: YARN gave no answer at the end of the wait: nobody knows.
        """
        deadline_s, said, say_s = self._now_s() + WAIT_S, "", 0.0
        granted = False
        while True:
            report = self._heard(name, application_id, deadline_s)
            if report is None:
                return verdicts.unknown(application_id)
            if reports.ref_of(report, name).url is not None:
                return report
            if reason := reports.hopeless(report):
                return verdicts.failed(application_id, reason)
            if report.container_granted and not granted:  # now the master itself has its time
                granted, deadline_s = True, self._now_s() + within_s
            waits = reports.waiting(report)
            if self._now_s() > deadline_s:
                return verdicts.waited(
                    application_id, waits, within_s if granted else WAIT_S, granted=granted
                )
            if waits != said or self._now_s() > say_s:
                self._say(waits)
                said, say_s = waits, self._now_s() + _SAY_AGAIN_S
            self._pause.wait(_POLL_S)

    def _heard(self, name: str, application_id: str, deadline_s: float) -> ApplicationReport | None:
        """Ask until there is an answer: a failover of the RM says nothing about the master."""
        while True:
            try:
                return self._report(application_id)
            except (TarnError, OSError) as error:
                if self._now_s() > deadline_s:
                    raise verdicts.unheard(name, application_id, error) from error
                self._say(f"YARN does not answer, retrying: {error}")
            self._pause.wait(_ASK_AGAIN_S)

    def _end(self, name: str, application_id: str, why: str) -> None:
        self._hadoop.ask("kill", LOOK_S, application_id=application_id, why=why)
        deadline_s = self._now_s() + END_S
        while self._alive(application_id):
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
        return None if told is None else _converter.structure(told, ApplicationReport)

    def _alive(self, application_id: str) -> bool:
        report = self._report(application_id)
        return report is not None and reports.alive(report)

    def _undone(self, name: str, application_id: str, verdict: LaunchError) -> LaunchError:
        """Leave nothing behind; returns what to raise, which says so where that failed."""
        try:
            self._end(name, application_id, f"{reports.GIVEN_UP}{verdict.found}")
        except (TarnError, OSError) as error:
            return verdicts.not_ended(application_id, verdict, error)
        return verdict

    def _fetched(self, name: str, application_id: str, directory: Path) -> dict[str, bytes]:
        """Return what is missing here, and was put into the staging directory before all else."""
        found = {}
        for file in FETCHED:
            if (directory / file).exists() or (application_id, file) in self._absent:
                continue
            try:
                told = self._hadoop.ask("read", LOOK_S, name=name, file=file)
            except TarnError as error:  # the cluster is found nevertheless
                self._say(f"note: {error}")
                continue
            if told is None:
                self._absent.add((application_id, file))
            else:
                found[file] = base64.b64decode(told)
        return found

    def _container(self, ref: ClusterRef, instance_id: str) -> tuple[str, str]:
        """Ask the master for an instance's container and host; ('', '') where it cannot tell."""
        key = (str(ref.application_id), instance_id)
        if key not in self._containers_of:
            for item in self._known_instances(ref):
                if item.get("id") == instance_id and item.get("container_id"):
                    # an id is never used again: it is asked for once
                    where = str(item["container_id"]), str(item.get("node") or "")
                    self._containers_of[key] = where
        return self._containers_of.get(key, ("", ""))

    def _known_instances(self, ref: ClusterRef) -> tuple[Mapping[str, Any], ...]:
        """Ask the master for its instances, also for those that ended; none where it is away."""
        present = self.find(ref.name)
        if present is None or present.url is None or present.application_id != ref.application_id:
            return ()
        path = self._context.paths.cluster(ref.name) / "api_token"
        try:
            token = path.read_text("ascii").strip() if path.exists() else None
            with MasterApi(present.url, token, trust=self._known(ref.name)) as api:
                status = api.status()
        except (TarnError, OSError, ValueError):
            return ()
        return (*status.get("instances", ()), *status.get("ended", ()))

    def _known(self, name: str) -> Trust:
        kept = self._context.paths.cluster(name) / TLS_CA
        return Trust(kept if kept.is_file() else None)

    def _say(self, message: str) -> None:
        self._context.progress(Progress("launching", message))

    def _now_s(self) -> float:
        return self._context.clock.now_s()


def _repository(spec: ClusterSpec) -> dict[str, Any]:
    """Return what a check asks of the models: a URI that the nodes read is looked at by YARN."""
    uri = spec.models.repository if urlsplit(spec.models.repository).scheme in READS else None
    return {"repository": uri, "serve": list(spec.models.serve)}


def start_child(settings: YarnSettings, context: ClientContext) -> HadoopChild:
    """Return a child, not yet started: the same interpreter, and the same tarn as this process."""
    root = str(Path(errors.__file__).parents[1])
    given = context.environ.get("PYTHONPATH")
    path = f"{root}:{given}" if given else root
    return HadoopChild(
        [sys.executable, "-P", "-X", "utf8", "-m", "tarn_plugins.runtime.yarn.child.serving"],
        {**context.environ, "PYTHONPATH": path, "MALLOC_ARENA_MAX": "2"},
        {
            "environ": dict(context.environ),
            "hadoop": settings.hadoop_home,
            "java": settings.java_home,
            "staging": settings.staging,
            "kerberos": None if settings.kerberos is None else _pair(settings.kerberos),
        },
    )


def _pair(kerberos: Kerberos) -> tuple[str, str]:
    return kerberos.principal, str(kerberos.keytab)


def _patience_s(amount: int) -> float:
    """Return how long a copy of *amount* bytes may take."""
    return SUBMIT_S + amount / SLOWEST_BYTES_PER_S
