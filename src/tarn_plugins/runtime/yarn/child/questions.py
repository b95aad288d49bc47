"""What the child process answers: each question is a method here."""

import base64
import contextlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from tarn.domain.master_files import CLIENT_CA, SPEC, STAGED, TEST_REQUESTS, TLS_CA
from tarn.errors import LaunchError, NotFoundError, ProviderError, TarnError
from tarn.interfaces import Staged
from tarn.java import describe, hadoop_classpath, java_home, jvm, kerberos_options
from tarn.release import version
from tarn_plugins.runtime.yarn import keytab, tokens
from tarn_plugins.runtime.yarn.client import packed, submission
from tarn_plugins.runtime.yarn.client.cluster import Hadoop
from tarn_plugins.runtime.yarn.client.logs import LogCache
from tarn_plugins.runtime.yarn.client.ref import FETCHED
from tarn_plugins.runtime.yarn.client.reports import (
    APPLICATION_TYPE,
    ApplicationReport,
    alive,
    cluster_tag,
    newest,
)
from tarn_plugins.runtime.yarn.client.upload import upload
from tarn_plugins.runtime.yarn.environment import resource
from tarn_plugins.runtime.yarn.hadoop import credentials, web
from tarn_plugins.runtime.yarn.keytab import Renewal
from tarn_plugins.runtime.yarn.launch import run_script
from tarn_plugins.runtime.yarn.layout import Layout
from tarn_plugins.runtime.yarn.messages import FileEntry, LocalFile, Submitted
from tarn_plugins.runtime.yarn.probe.applications import Applications
from tarn_plugins.runtime.yarn.staging import Staging

__all__ = ["Questions"]

HEAP_MIB = 256
_ROOMY = ("-Xms64m", "-Xmn32m")
"""Instead of the small young generation of a master, which lives for months: it is collected more
than twenty times before the first answer, 0.25 s of the 1.4 s of CPU until then (measured)."""
_USER = "HADOOP_USER_NAME"
"""Who a master is on Hadoop, where no Kerberos says it: a node's LinuxContainerExecutor runs it as
``nobody`` unless its administrator decided otherwise. With Kerberos nobody reads this."""
_NO_SECRETS = frozenset({SPEC, STAGED, TEST_REQUESTS, TLS_CA, CLIENT_CA, "yarn.json"})
"""Of what the master alone may read."""
_IN_CLEAR = (
    "Hadoop's own protocol is not encrypted here (hadoop.rpc.protection is not privacy): "
    "everybody who can read this network sees the keytab on its way to the ResourceManager and "
    "to the master's node"
)
_QUESTIONS = frozenset(
    {
        "begin",
        "bring_environment",
        "environment",
        "find",
        "kill",
        "overview",
        "last",
        "put",
        "logged",
        "logs",
        "probe",
        "read",
        "remove",
        "report",
        "submit",
        "survey",
        "upload",
    }
)


class Questions:
    """Answers with one ``YarnClient`` and one file system, from the first question to the last."""

    def __init__(self) -> None:
        self._hadoop: Hadoop | None = None
        self._probes: Applications | None = None
        self._logs = LogCache(self._at)

    def close(self) -> None:
        """End what no client waits for any more."""
        if self._probes is not None:
            self._probes.close()

    def answer(self, question: str, parts: Mapping[str, Any]) -> Any:
        """Return what the method named *question* returns."""
        if question not in _QUESTIONS:
            raise ProviderError("yarn", f"'{question}' is not a known question")
        try:
            return getattr(self, question)(**parts)
        except TarnError:
            raise
        except Exception as error:
            if not _is_java(error):
                raise
            if self._hadoop is None:
                raise _unusable(error) from None
            raise self._hadoop.failed(error) from None

    def begin(
        self,
        environ: Mapping[str, str],
        hadoop: str | None,
        java: str | None,
        staging: str | None,
        kerberos: Sequence[str] | None = None,
    ) -> None:
        """Start the JVM and connect.

        Args:
            environ: The client's.
            hadoop: Hadoop's directory; None: as `hadoop_classpath` looks for it.
            java: Java's; None: as `java_home` does.
            staging: None: ``.tarn`` in the user's home directory.
            kerberos: Principal, and path of its keytab; None: a ticket is used, where one is asked.
        """
        options = (*_ROOMY, *kerberos_options(environ))
        jvm.start(hadoop_classpath(environ, hadoop), HEAP_MIB, java_home(environ, java), options)
        login = None if kerberos is None else (kerberos[0], kerberos[1])
        self._hadoop = Hadoop(staging, environ, login)

    def overview(self, repository: str | None, serve: list[str]) -> Any:
        """Return what a check needs to know: `checks.Land`."""
        return attrs.asdict(self._at().overview(repository, serve))

    def survey(self, **asked: Any) -> Any:
        """Return what `tarn doctor` looks at: `doctor.survey.Survey`; *asked*: `looking.Asked`."""
        from tarn_plugins.runtime.yarn.doctor import looking  # noqa: PLC0415 (only a doctor needs it)

        return attrs.asdict(looking.look(self._at(), looking.SurveyScope(**asked)))

    def report(self, application_id: str) -> Any:
        """Return the application with its attempts; None: YARN does not know it."""
        report = self._at().report(application_id, attempts=True)
        return None if report is None else attrs.asdict(report)

    def find(self, name: str, application_id: str | None) -> Any:
        """Return the live application of a cluster, by the id that was kept, else by its tag."""
        kept = self._at().report(application_id) if application_id else None
        if kept is not None and alive(kept):
            return attrs.asdict(kept)
        found = newest(r for r in self._tagged(name) if alive(r))
        return None if found is None else attrs.asdict(found)

    def last(self, name: str) -> Any:
        """Return the application of a cluster that was over last, with its attempts; or None."""
        found = newest(r for r in self._tagged(name) if not alive(r))
        return None if found is None else self.report(found.application_id)

    def kill(self, application_id: str, why: str) -> None:
        """Ask the RM to end an application; one that is over, or unknown, is not an error."""
        report = self._at().report(application_id)
        if report is not None and alive(report):
            self._at().kill(application_id, why)

    def remove(self, name: str, application_id: str) -> None:
        """Remove the staging directory, if this application still owns it."""
        self._staging(name).remove(application_id)

    def read(self, name: str, file: str) -> str | None:
        """Return a private file of the cluster, base64; None: it has none of this name."""
        try:
            data = self._at().files.read(f"{self._layout(name).private}/{file}")
        except NotFoundError:
            return None
        return base64.b64encode(data).decode()

    def logs(self, **parts: Any) -> bool:
        """Write a log into a file; False: there is none. See `LogCache.write`."""
        return self._logs.write(**parts)

    def logged(self, application_id: str) -> Any:
        """Return the ids of the instances whose logs were collected."""
        return list(self._logs.ids(application_id))

    def probe(self, do: str, **parts: Any) -> Any:
        """Begin, go on with, or end a container that looks at a node; see `Applications`."""
        if self._probes is None:
            self._probes = Applications(self._at())
        return self._probes.answer(do, **parts)

    def upload(self, staged: Mapping[str, Any]) -> Any:
        """Bring a copy of this machine to where the nodes read it; returns the new `Staged`."""
        hadoop = self._at()
        made = upload(Staged(**staged), hadoop.staging, hadoop.files)
        return attrs.asdict(made)

    def environment(self, python: str) -> Any:
        """Return the findings about a packed environment."""
        seen = packed.look(python, self._at().files, version())
        return [attrs.asdict(finding) for finding in seen]

    def bring_environment(self, python: str) -> Any:
        """Bring a packed environment to where the nodes read it; returns its URI and size."""
        hadoop = self._at()
        entry = packed.bring(python, hadoop.staging, hadoop.files)
        return {"uri": entry.uri, "bytes": entry.bytes}

    def put(self, local: str, uri: str) -> tuple[str, bool]:
        """Copy a file of this machine, unless it is there; returns its URI, and whether it was."""
        return packed.put(Path(local), uri, self._at().files)

    def submit(  # noqa: PLR0913 (the parts of one question)
        self,
        *,
        order: Mapping[str, Any],
        python: str,
        argv: list[str],
        environ: Mapping[str, str],
        files: Mapping[str, str],
        file_systems: list[str],
        environment: str = "",
        log_bytes: int = 64 * 2**20,
    ) -> Any:
        """Submit a master; returns the application's id, and notes for a person.

        Args:
            order: `submission.Order`, without tags and command.
            python: Interpreter on the nodes.
            argv: The master's command.
            environ: The master's environment, free of secrets.
            files: Name to content (base64): what the master alone may read.
            file_systems: URIs whose delegation tokens the cluster needs.
            environment: URI of the packed environment that *python* is in; empty: none.
            log_bytes: A log of the master is moved aside beyond.
        """
        hadoop, name = self._at(), str(order["name"])
        whole = submission.SubmissionRequest(
            **order,
            tags=("tarn", cluster_tag(hadoop.user, name)),
            command=run_script.MASTER_COMMAND,
        )
        created = hadoop.client.createApplication()
        context = created.getApplicationSubmissionContext()
        application_id = str(context.getApplicationId())
        staging = self._staging(name)
        staging.take(name, application_id)
        try:
            used = (staging.layout.root, "/", *file_systems)  # "/": where YARN keeps logs
            collected = credentials.collect(hadoop.conf, used, {})
            submitted = attrs.evolve(
                self._submitted(staging, python, credentials.ends_at(collected)),
                environment=environment,
                principal=hadoop.principal,
                file_systems=used,
            )
            secrets = self._secrets(files, submitted)
            content = submission.content(argv, {**environ, _USER: hadoop.user}, log_bytes)
            _assert_no_secret(content, secrets)
            entries = staging.publish(content)
            staging.keep({name: secrets[name] for name in FETCHED if name in secrets})
            collected.addAll(credentials.collect(hadoop.conf, (), secrets))
            places = [*_places(entries), *self._unpacked(environment)]
            self._hand_over(context, whole, places, collected)
        except BaseException:
            with contextlib.suppress(Exception):  # the first error says more than one of this
                staging.remove(application_id)
            raise
        ends_at = submitted.tokens_end_at
        notes = [] if ends_at is None else [tokens.note(ends_at, Renewal(hadoop.principal))]
        notes += [_IN_CLEAR] if hadoop.keytab and not hadoop.private else []
        notes += [] if _public(entries) else [_not_public(staging.layout, ends_at)]
        return {"application_id": application_id, "notes": notes}

    def _secrets(self, files: Mapping[str, str], submitted: Submitted) -> dict[str, bytes]:
        """Return what goes to the master with the submission, and into no public file."""
        found = {name: base64.b64decode(data) for name, data in files.items()}
        if mine := self._at().keytab:
            found[keytab.NAME] = mine
        return {**found, "yarn.json": _json(submitted)}

    def _hand_over(
        self,
        context: Any,
        whole: submission.SubmissionRequest,
        places: list[LocalFile],
        collected: Any,
    ) -> None:
        hadoop = self._at()
        try:
            submission.submit(hadoop.client, context, whole, places, collected)
        except jvm.throwable() as error:
            application_id = str(context.getApplicationId())
            # It may live all the same: the RM took it and the answer was lost.
            with contextlib.suppress(Exception):
                self.kill(application_id, "its submission failed")
            raise hadoop.refused(application_id, error) from None

    def _unpacked(self, environment: str) -> tuple[LocalFile, ...]:
        return (resource(self._at().files.entry(environment)),) if environment else ()

    def _submitted(self, staging: Staging, python: str, tokens_end_at: float | None) -> Submitted:
        hadoop = self._at()
        placement = web.placement(hadoop.web, federated=hadoop.federated)
        proxies = hadoop.proxies()
        found = web.addresses(proxies)
        # From a loopback address speaks every process of whichever node the master runs on, so
        # nothing is proven by it: not even where one proxy of several has such an address.
        apart = bool(found) and not any(map(web.loopback, found))
        return Submitted(
            staging=staging.layout.root,
            python=python,
            placement=placement.mode,
            placement_reason=placement.reason,
            tokens_end_at=tokens_end_at,
            proxies=found,
            proxy_proves=apart and all(hadoop.web.proves(url) for url in proxies),
        )

    def _tagged(self, name: str) -> tuple[ApplicationReport, ...]:
        hadoop = self._at()
        return hadoop.tagged(APPLICATION_TYPE, cluster_tag(hadoop.user, name))

    def _staging(self, name: str) -> Staging:
        return Staging(self._at().files, self._layout(name), self._state, time.time)

    def _layout(self, name: str) -> Layout:
        return Layout(f"{self._at().staging}/{name}")

    def _state(self, application_id: str) -> bool | None:
        report = self._at().report(application_id)
        return None if report is None else alive(report)

    def _at(self) -> Hadoop:
        if self._hadoop is None:
            raise ProviderError("yarn", "the first question must be 'begin'")
        return self._hadoop


def _is_java(error: Exception) -> bool:
    try:
        return isinstance(error, jvm.throwable())
    except LaunchError:  # there is no JVM yet
        return False


def _unusable(error: Exception) -> LaunchError:
    """Return the error for a Hadoop client that cannot even begin: its configuration is wrong."""
    return LaunchError(
        "yarn",
        f"Hadoop's client does not start: {describe(error)}",
        code="TARN-3131",
        next_step="Check the files in HADOOP_CONF_DIR; with Kerberos, set KRB5_CONFIG to the "
        "krb5.conf of the realm.",
    )


def _public(entries: tuple[FileEntry, ...]) -> bool:
    """Say whether NodeManagers can fetch the master's own files as themselves."""
    return all(entry.public for entry in entries)


def _places(entries: tuple[FileEntry, ...]) -> tuple[LocalFile, ...]:
    """Return where the master's own files go in its container.

    The NodeManagers fetch what is public as themselves, which outlives every token.
    """
    places = {run_script.RUN_NAME: run_script.SCRIPT, "master": run_script.LAUNCH}
    public = _public(entries)
    return tuple(
        LocalFile(
            places[e.path], e.uri, e.bytes, e.modified_ms, public=public, application=not public
        )
        for e in entries
        if e.path in places
    )


def _json(submitted: Submitted) -> bytes:
    from cattrs.preconf.json import make_converter  # noqa: PLC0415 (only a submission needs it)

    return make_converter().dumps(submitted).encode()


def _assert_no_secret(content: Mapping[str, bytes], secrets: Mapping[str, bytes]) -> None:
    """Refuse to publish what only the master may read, whatever way it took into a public file."""
    for name in secrets.keys() - _NO_SECRETS:
        secret = secrets[name].strip()
        if secret and any(secret in data for data in content.values()):
            raise LaunchError("yarn", f"{name} would be readable by everybody; nothing was sent")


def _not_public(layout: Layout, tokens_end_at: float | None) -> str:
    if tokens_end_at is None:
        until = " once its delegation tokens have ended, on a cluster with Kerberos"
    else:
        until = f" after {tokens.day(tokens_end_at)}, when no token can be renewed any more"
    return (
        f"not everybody can read {layout.public} through all its parent directories, so a lost "
        f"master cannot be started again{until}; set runtime.options.staging to a shared "
        "directory (mode 1777) whose parents everybody may pass"
    )
