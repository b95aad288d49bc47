"""The process that holds the JVM for a client; `hadoop_child` starts it as a module.

It answers lines of JSON from standard input on standard output, one after another. It ends when its
input is closed, or after a minute without a question, with exit code 0 to show that none was lost.
Other output to standard output, also of Java, goes to standard error. Each question is a method of
`Questions`.
"""

import base64
import json
import os
import select
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from tarn.errors import LaunchError, NotFoundError, ProviderError, TarnError
from tarn.interfaces import Staged
from tarn.java import ClassArchive, HadoopJvm, describe, jvm, leave
from tarn.release import version
from tarn_plugins.runtime.yarn import class_archives, environment
from tarn_plugins.runtime.yarn.client import submission
from tarn_plugins.runtime.yarn.client.cluster import Hadoop
from tarn_plugins.runtime.yarn.client.hadoop_child import pack
from tarn_plugins.runtime.yarn.client.logs import LogCache
from tarn_plugins.runtime.yarn.client.reports import (
    APPLICATION_TYPE,
    ApplicationReport,
    alive,
    cluster_tag,
    newest,
)
from tarn_plugins.runtime.yarn.probe.applications import Applications
from tarn_plugins.runtime.yarn.staging import Layout, Staging

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

IDLE_S = 60.0
_CHUNK = 65536


class Questions:
    """Answers the questions, with one ``YarnClient`` and one file system."""

    def __init__(self) -> None:
        self._hadoop: Hadoop | None = None
        self._probes: Applications | None = None
        self._logs = LogCache(self._at)
        self._archive: ClassArchive | None = None
        self._submitted = False

    def close(self) -> None:
        """End the probes, for which no client waits any more; have an archive made."""
        if self._probes is not None:
            self._probes.close()
        if self._archive is None or not self._archive.recorded:
            return
        # Only a submission uses most of the classes.
        if self._submitted:
            self._archive.make()
        else:
            self._archive.forget()

    def answer(self, question: str, parts: Mapping[str, Any]) -> Any:
        """Call the method named *question*, and return its result."""
        if question not in _QUESTIONS:
            raise ProviderError("yarn", f"'{question}' is not a known question")
        try:
            return getattr(self, question)(**parts)
        except TarnError:
            raise
        except Exception as error:
            try:
                is_java = isinstance(error, jvm.throwable())
            except LaunchError:  # there is no JVM yet
                is_java = False
            if not is_java:
                raise
            if self._hadoop is not None:
                raise self._hadoop.failed(error) from None
            raise LaunchError(
                "yarn",
                f"Hadoop's client does not start: {describe(error)}",
                code="TARN-3131",
                next_step="Check the files in HADOOP_CONF_DIR; with Kerberos, set KRB5_CONFIG to "
                "the krb5.conf of the realm.",
            ) from None

    def begin(
        self,
        environ: Mapping[str, str],
        java: Mapping[str, Any],
        staging: str | None,
        kerberos: Sequence[str] | None = None,
    ) -> None:
        """Start the JVM and connect.

        Args:
            environ: The client's.
            java: The fields of a `HadoopJvm`.
            staging: The staging directory; None means ``.tarn`` in the user's home directory.
            kerberos: Principal and path of its keytab; None means a ticket, if Hadoop needs one.
        """
        self._archive = HadoopJvm.from_plain(java).start(environ)
        login = None if kerberos is None else (kerberos[0], kerberos[1])
        self._hadoop = Hadoop(staging, environ, login)

    def overview(self, repository: str | None, serve: list[str]) -> Any:
        """Return a `YarnOverview`, for the checks."""
        return attrs.asdict(self._at().overview(repository, serve))

    def survey(self, **asked: Any) -> Any:
        """Return a `Survey` for `tarn doctor`; *asked* is a `looking.SurveyScope`."""
        from tarn_plugins.runtime.yarn.doctor import looking  # noqa: PLC0415 (only a doctor needs it)

        return attrs.asdict(looking.look(self._at(), looking.SurveyScope(**asked)))

    def report(self, application_id: str) -> Any:
        """Return the application with its attempts; None if YARN does not know it."""
        report = self._at().report(application_id, attempts=True)
        return None if report is None else attrs.asdict(report)

    def find(self, name: str, application_id: str | None) -> Any:
        """Return the live application of a cluster, by its last id, else by its tag."""
        kept = self._at().report(application_id) if application_id else None
        if kept is not None and alive(kept):
            return attrs.asdict(kept)
        found = newest(r for r in self._tagged(name) if alive(r))
        return None if found is None else attrs.asdict(found)

    def last(self, name: str) -> Any:
        """Return the last ended application of a cluster, with its attempts; or None."""
        found = newest(r for r in self._tagged(name) if not alive(r))
        return None if found is None else self.report(found.application_id)

    def kill(self, application_id: str, why: str) -> None:
        """Ask the RM to end an application; an ended or unknown one is not an error."""
        self._at().end(application_id, why)

    def remove(self, name: str, application_id: str) -> None:
        """Remove the staging directory, if this application still owns it."""
        self._staging(name).remove(application_id)

    def read(self, name: str, file: str) -> str | None:
        """Return a private file of the cluster in base64; None if it does not exist."""
        try:
            data = self._at().files.read(f"{self._layout(name).private}/{file}")
        except NotFoundError:
            return None
        return base64.b64encode(data).decode()

    def logs(self, **parts: Any) -> bool:
        """Write a log into a file; return False if there is none. See `LogCache.write`."""
        return self._logs.write(**parts)

    def logged(self, application_id: str) -> Any:
        """Return the ids of the instances whose logs were aggregated."""
        return list(self._logs.ids(application_id))

    def probe(self, do: str, **parts: Any) -> Any:
        """Begin, continue or end a probe of a node; see `Applications`."""
        if self._probes is None:
            self._probes = Applications(self._at())
        return self._probes.answer(do, **parts)

    def upload(self, staged: Mapping[str, Any]) -> Any:
        """Upload a staged repository of this machine, and return the new `Staged`."""
        hadoop = self._at()
        return attrs.asdict(submission.upload(Staged(**staged), hadoop.staging, hadoop.files))

    def environment(self, python: str) -> Any:
        """Return the findings about a packed environment."""
        seen = environment.look(python, self._at().files, version())
        return [attrs.asdict(finding) for finding in seen]

    def bring_environment(self, python: str) -> Any:
        """Upload a packed environment if needed, and return its URI and size."""
        hadoop = self._at()
        entry = environment.bring(python, hadoop.staging, hadoop.files)
        return {"uri": entry.uri, "bytes": entry.bytes}

    def put(self, local: str, uri: str) -> tuple[str, bool]:
        """Copy a local file unless it exists; return its URI, and whether it existed."""
        return environment.put(Path(local), uri, self._at().files)

    def submit(self, **parts: Any) -> Any:
        """Submit a master; returns the application's id, and notes for a person.

        *parts* are those of a `MasterRequest`.
        """
        wanted = submission.MasterRequest(**parts)
        hadoop, archive = self._at(), self._archive
        file = archive.file if archive is not None and archive.exists else None
        answer = submission.submit(hadoop, self._staging(wanted.name), wanted, file)
        self._submitted = True
        if file is not None:
            # For later masters, while this one starts. A daemon, since the process may leave first.
            bring = threading.Thread(
                target=class_archives.bring,
                args=(file, hadoop.staging, hadoop.files),
                name="bring-classes",
                daemon=True,
            )
            bring.start()
        return answer

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


def serve(reading: int, writing: int, answering: Questions, idle_s: float = IDLE_S) -> None:
    """Answer lines from descriptor *reading* on *writing*, until its end or *idle_s*."""
    for line in _lines(reading, idle_s):
        message = json.loads(line)
        reply = _reply(answering, str(message["question"]), message["parts"])
        # In a loop, since a pipe may take only the beginning of a long answer.
        view = memoryview(json.dumps(reply).encode() + b"\n")
        while view:
            view = view[os.write(writing, view) :]


def _reply(answering: Questions, question: str, parts: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return {"answer": answering.answer(question, parts)}
    except TarnError as error:
        return {"error": pack(error)}
    except Exception as error:  # noqa: BLE001 (the client must get any error)
        # Without its text, which may contain secrets. The traceback names only places.
        traceback.print_tb(error.__traceback__)
        found = f"'{question}' failed by {type(error).__name__}, which is a bug in TARN"
        return {"error": pack(ProviderError("yarn", found))}


def _lines(reading: int, idle_s: float) -> Iterator[bytes]:
    heard = b""
    while True:
        ready, _, _ = select.select([reading], [], [], idle_s)
        data = os.read(reading, _CHUNK) if ready else b""
        if not data:
            return
        *lines, heard = (heard + data).split(b"\n")
        yield from lines


def main() -> None:
    """Run as the child of a client; exit without waiting for Java's threads."""
    # Otherwise the output of Java and of libraries would end up between the answers.
    writing = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    code = 0
    questions = Questions()
    try:
        serve(sys.stdin.fileno(), writing, questions)
    except BrokenPipeError:
        pass  # the client left
    except Exception:  # noqa: BLE001 (the process is left without Python's own word about it)
        traceback.print_exc()
        code = 1
    questions.close()
    leave(code)


if __name__ == "__main__":
    main()
