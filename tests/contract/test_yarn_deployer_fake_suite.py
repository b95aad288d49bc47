"""The deployer of YARN keeps the promises of `Deployer`, over a YARN in memory.

The same suite runs over a real one in ``tests/yarn``.
"""

import base64
import threading
import time
from pathlib import Path
from typing import Any

import attrs
from files_in_memory import FilesInMemory

from tarn.domain import ClusterSpec
from tarn.interfaces import Deployer
from tarn.testing.context import client_context, cluster_spec
from tarn.testing.contracts import DeployerContract
from tarn_plugins.runtime import yarn
from tarn_plugins.runtime.yarn import YarnSettings
from tarn_plugins.runtime.yarn.client.checks import YarnOverview
from tarn_plugins.runtime.yarn.client.deployer import YarnDeployer
from tarn_plugins.runtime.yarn.client.reports import (
    ApplicationAttempt,
    ApplicationReport,
    alive,
    newest,
)
from tarn_plugins.runtime.yarn.staging import Layout, Staging
from tarn_plugins.runtime.yarn.survey import Survey

DIED = "AM Container for x exited with  exitCode: 1\nLast 4096 bytes of master.stderr :\nwhy\n"


class YarnInMemory:
    """A `HadoopClient`, and what is behind it, for any number of clients."""

    def __init__(self) -> None:
        self.files = FilesInMemory(time.time)
        self.reports: dict[str, ApplicationReport] = {}
        self.names: dict[str, str] = {}
        self._lock = threading.Lock()
        self._count = 0

    def ask(self, question: str, within_s: float, **parts: Any) -> Any:
        return getattr(self, question)(**parts)

    def overview(self, repository: str | None, serve: list[str]) -> Any:
        return attrs.asdict(YarnOverview(user="ann"))

    def survey(self, **_: Any) -> Any:
        return attrs.asdict(Survey())

    def submit(self, name: str, files: dict[str, str], **_: Any) -> Any:
        with self._lock:
            self._count += 1
            id_ = f"application_1_{self._count:04}"
            submitted_ms = 1000 + self._count
        staging = self._staging(name)
        staging.take(name, id_)
        private = {file: base64.b64decode(data) for file, data in files.items()}
        staging.fill({"run": b"run"}, private)
        report = ApplicationReport(id_, "RUNNING", host="nm1", port=80, submitted_ms=submitted_ms)
        if name == "doomed":
            ended = (ApplicationAttempt(1, "FAILED", DIED),)
            report = attrs.evolve(report, state="ACCEPTED", host="", port=0, attempts=ended)
        self.reports[id_], self.names[id_] = report, name
        return {"application_id": id_, "notes": []}

    def report(self, application_id: str) -> Any:
        found = self.reports.get(application_id)
        return None if found is None else attrs.asdict(found)

    def find(self, name: str, application_id: str | None) -> Any:
        return self._newest(name, living=True)

    def last(self, name: str) -> Any:
        return self._newest(name, living=False)

    def kill(self, application_id: str, why: str) -> None:
        report = self.reports[application_id]
        if alive(report):
            self.reports[application_id] = attrs.evolve(
                report, state="KILLED", diagnostics=why, finished_ms=report.submitted_ms + 1
            )

    def remove(self, name: str, application_id: str) -> None:
        self._staging(name).remove(application_id)

    def read(self, name: str, file: str) -> str | None:
        content = self.files.content.get(f"{_layout(name).private}/{file}")
        return None if content is None else base64.b64encode(content[0]).decode()

    def logs(self, into: str, instance_id: str, **_: Any) -> bool:
        if instance_id:
            return False
        Path(into).write_text("started\nlistens\n")
        return True

    def logged(self, application_id: str) -> list[str]:
        return []

    def _newest(self, name: str, *, living: bool) -> Any:
        mine = [r for id_, r in self.reports.items() if self.names[id_] == name]
        found = newest(r for r in mine if alive(r) is living)
        return None if found is None else attrs.asdict(found)

    def _staging(self, name: str) -> Staging:
        return Staging(self.files, _layout(name), self._alive, time.time)

    def _alive(self, id_: str) -> bool | None:
        report = self.reports.get(id_)
        return None if report is None else alive(report)


def _layout(name: str) -> Layout:
    return Layout(f"hdfs://n/tarn/{name}")


class TestYarn(DeployerContract):
    """Everything but Java."""

    factory = yarn.tarn_runtimes()["yarn"]

    def setup_method(self) -> None:
        self.land = YarnInMemory()

    def teardown_method(self) -> None:
        assert self.land.files.content == {}, "something stayed in HDFS"

    def make(self, tmp_path: Path) -> Deployer:
        return YarnDeployer(YarnSettings(docker=None), client_context(tmp_path), self.land)

    def spec(self, tmp_path: Path) -> ClusterSpec:
        return cluster_spec()
