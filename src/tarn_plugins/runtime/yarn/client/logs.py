"""Logs of masters and instances: from the node while it has them, else as YARN collected them.

Which container an instance had is told by the master while one is at work. Afterwards the logs
themselves are asked: next to each lies a file named after its instance, and Triton's own begins
with a table of its options, where ``server_id`` is the instance's id.
"""

import json
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tarn.errors import ProviderError
from tarn.java import jvm
from tarn_plugins.runtime.yarn.client.reports import ApplicationReport, alive
from tarn_plugins.runtime.yarn.hadoop import web
from tarn_plugins.runtime.yarn.launch.run_script import MARK
from tarn_plugins.runtime.yarn.log_text import contents

if TYPE_CHECKING:
    from tarn_plugins.runtime.yarn.client.cluster import Hadoop

__all__ = ["ApplicationLogs", "LogCache"]

_MASTER = re.compile(r"master\.stderr(\.\d+)?")
_INSTANCE = re.compile(r"triton\.stderr(\.\d+)?")
_ROTATED = re.compile(r"(master|triton)\.stderr\.\d+")
_SERVER_ID = re.compile(rb"server_id\s*\|\s*(\S+)\s*\|")
_COLLECTED = "org.apache.hadoop.yarn.logaggregation"
_ON_NODE = "LOCAL"
"""Files that a node still has: it lists what it has collected next to them, and shows it not."""
_FRESH_S = 5.0
_BYTES_A_LINE, _LEAST = 256, 64 * 1024


class LogCache:
    """The logs of one application after another, for whoever asks again and again. One thread."""

    def __init__(self, hadoop: Callable[[], "Hadoop"]) -> None:
        self._hadoop = hadoop
        self._opened: tuple[str, float, ApplicationLogs] | None = None
        self._ids: dict[str, str] = {}
        """Container id to instance id, as the logs said: they never change."""

    def write(  # noqa: PLR0913 (the parts of one question, all by keyword)
        self,
        *,
        application_id: str,
        instance_id: str,
        container_id: str,
        host: str,
        into: str,
        tail: int | None = None,
    ) -> bool:
        """Write a log, or at least its last *tail* lines, into the file *into*; False: no log.

        Raises:
            ProviderError: Its node refuses to show it, and nothing of it was collected.
        """
        logs = self._open(application_id)
        if logs is None:
            return False
        if instance_id:
            texts = logs.instance(instance_id, container_id, host, tail)
        else:
            texts = logs.master(tail)
        if not texts and logs.refused:
            raise ProviderError(
                "yarn",
                f"the node does not show the log: {logs.refused}",
                code="TARN-3811",
                where=container_id or application_id,
            )
        with open(into, "wb") as sink:  # noqa: PTH123 (a private file of the asker)
            sink.writelines(texts)
        return bool(texts)

    def ids(self, application_id: str) -> tuple[str, ...]:
        """Return the ids of the instances whose logs YARN has collected."""
        logs = self._open(application_id)
        return () if logs is None else logs.ids()

    def _open(self, application_id: str) -> "ApplicationLogs | None":
        """Return the logs of an application, looked up at most every few seconds."""
        now_s = time.monotonic()
        if self._opened is not None:
            known, since_s, logs = self._opened
            if known == application_id and now_s - since_s < _FRESH_S:
                return logs
        hadoop = self._hadoop()
        report = hadoop.report(application_id)
        if report is None:
            return None
        logs = ApplicationLogs(hadoop, report, self._ids)
        self._opened = application_id, now_s, logs
        return logs


class ApplicationLogs:
    """The logs of one application, as they can be found within a few seconds.

    Args:
        hadoop: Asks YARN.
        report: The application.
        ids: Container id to instance id; filled as logs are read.
    """

    def __init__(
        self, hadoop: "Hadoop", report: ApplicationReport, ids: dict[str, str] | None = None
    ) -> None:
        self._hadoop, self._report = hadoop, report
        self._ids = {} if ids is None else ids
        self._meta: dict[str, tuple[str, ...]] | None = None
        self._nodes: dict[str, str] | None = None
        self.refused = ""
        """What a node said that did not show the log asked for last; empty: none refused."""
        self._nobody: set[str] = set()
        """Containers of which nothing says now whose they were."""

    def master(self, tail: int | None = None) -> list[bytes]:
        """Return the logs of every attempt, oldest first, or enough for the last *tail* lines."""
        self.refused = ""
        found: list[bytes] = []
        for container_id, node in reversed(list(self._attempts())):
            missing = None if tail is None else tail - _lines(found)
            if missing is not None and missing <= 0:
                break
            found[:0] = self._texts(container_id, node, _MASTER, missing)
        return found

    def instance(
        self, instance_id: str, container_id: str, host: str, tail: int | None = None
    ) -> list[bytes]:
        """Return the log of an instance; without a *container_id* the collected are searched.

        *host* is where the container is or was; empty: only collected logs are looked at.
        """
        self.refused = ""
        if container_id:
            return self._texts(container_id, self._node(host), _INSTANCE, tail)
        found: list[bytes] = []
        for candidate in self._collected():
            if self._whose(candidate) == instance_id:
                found += self._from_collected(candidate, _INSTANCE)
        return found

    def ids(self) -> tuple[str, ...]:
        """Return the ids of the instances in what was collected."""
        found = {self._whose(candidate) for candidate in self._collected()}
        return tuple(sorted(found - {""}))

    def _whose(self, container_id: str) -> str:
        """Return the instance that a collected container was; empty: none, or nobody can tell.

        Its name is that of a file next to its log; else the log is asked, which is read for that.
        """
        if container_id in self._nobody:
            return ""
        if container_id not in self._ids:
            names = self._collected()[container_id]
            marks = [n.removeprefix(MARK) for n in names if n.startswith(MARK)]
            if not marks and any(_INSTANCE.fullmatch(n) for n in names):
                texts = self._from_collected(container_id, _INSTANCE)
                found = (_SERVER_ID.search(text) for text in texts)
                marks = [each[1].decode(errors="replace") for each in found if each]
            if not marks:  # more of it may be collected later
                self._nobody.add(container_id)
                return ""
            self._ids[container_id] = marks[0]
        return self._ids[container_id]

    def _node(self, host: str) -> str:
        if not host:
            return ""
        if self._nodes is None:
            self._nodes = self._hadoop.nodes()
        return self._nodes.get(host, "")

    def _texts(
        self, container_id: str, node: str, names: re.Pattern[str], tail: int | None
    ) -> list[bytes]:
        """Return a log of which a part may be collected, and deleted on the node, already."""
        there = self._from_node(container_id, node, names, tail) if node else []
        if not there:
            return self._from_collected(container_id, names)
        enough = tail is not None and _lines(there) >= tail
        if enough or container_id not in self._collected():
            return there
        before = self._from_collected(container_id, _ROTATED)
        # for a moment it is in both places
        both = bool(before) and len(there) > 1 and before[-1].endswith(there[0])
        return [*before, *(there[1:] if both else there)]

    def _attempts(self) -> Iterator[tuple[str, str]]:
        """Yield (container id, ``host:port`` of its node's web server) of each master, by age."""
        path = f"ws/v1/cluster/apps/{self._report.application_id}/appattempts"
        answer = self._hadoop.web.rest(path) or {}
        tries = (answer.get("appAttempts") or {}).get("appAttempt") or []
        for each in sorted(tries, key=lambda one: int(one.get("id", 0))):
            if each.get("containerId"):
                yield str(each["containerId"]), str(each.get("nodeHttpAddress", ""))

    def _from_node(
        self, container_id: str, node: str, names: re.Pattern[str], tail: int | None
    ) -> list[bytes]:
        """Ask the NodeManager: it has the logs until they are collected, or grow too old."""
        base = f"{web.scheme(self._hadoop.conf)}://{node}/ws/v1/node/containers/{container_id}/logs"
        try:
            listed = json.loads(self._hadoop.web.get(base))
            files = {
                str(info["fileName"])
                for part in _listed(listed)
                if part.get("logAggregationType", _ON_NODE) == _ON_NODE
                for info in _listed(part.get("containerLogInfo"))
            }
            wanted = sorted((f for f in files if names.fullmatch(f)), key=_age)
            found: list[bytes] = []
            for name in reversed(wanted):
                missing = None if tail is None else tail - _lines(found)
                if missing is None or missing > 0:
                    found[:0] = self._of_file(f"{base}/{quote(name)}", missing)
        except ProviderError as error:  # the node is gone, has forgotten it, or refuses
            if error.retry_after_s is None and "404" not in error.found:
                self.refused = error.found
            return []
        except (ValueError, KeyError):
            return []
        return found

    def _of_file(self, url: str, tail: int | None) -> list[bytes]:
        """Return a file of a node, or its end with at least *tail* lines, in whole lines."""
        if tail is None:
            return [text for _name, text in contents(self._hadoop.web.get(url))]
        most = max(_LEAST, tail * _BYTES_A_LINE)
        while True:
            printed = self._hadoop.web.get(f"{url}?size=-{most}")
            texts = [text for _name, text in contents(printed, most)]
            if not any(len(text) >= most for text in texts):
                return texts
            whole = [text.partition(b"\n")[2] for text in texts]
            if _lines(whole) >= tail:
                return whole
            most *= 8

    def _from_collected(self, container_id: str, names: re.Pattern[str]) -> list[bytes]:
        """Let Hadoop's own reader print what was collected of one container."""
        if container_id not in self._collected():
            self._meta = None  # its node may have handed it over since that was read
        wanted = sorted(
            (n for n in self._collected().get(container_id, ()) if names.fullmatch(n)), key=_age
        )
        if not wanted:
            return []
        request = self._request()
        request.setContainerId(container_id)
        request.setLogTypes(_set(wanted))
        helper = jvm.load(f"{_COLLECTED}.LogCLIHelpers")()
        helper.setConf(self._hadoop.conf)
        with _printed() as read:
            helper.dumpAContainerLogsForLogTypeWithoutNodeId(request)
            texts = dict[str, bytes]()
            for name, text in contents(read()):
                texts[name] = texts.get(name, b"") + text
        return [texts[name] for name in wanted if name in texts]

    def _collected(self) -> dict[str, tuple[str, ...]]:
        """Return container id to the names of its collected files, of the whole application."""
        if self._meta is None:
            factory = jvm.load(f"{_COLLECTED}.filecontroller.LogAggregationFileControllerFactory")(
                self._hadoop.conf
            )
            request = self._request()
            meta: dict[str, tuple[str, ...]] = {}
            try:
                reader = factory.getFileControllerForRead(request.getAppId(), self._report.user)
                for each in reader.readAggregatedLogsMeta(request):
                    names = (str(one.getFileName()) for one in each.getContainerLogMeta())
                    key = str(each.getContainerId())
                    meta[key] = (*meta.get(key, ()), *names)
            except jvm.throwable():
                meta = {}  # nothing was collected, or it was deleted since
            self._meta = meta
        return self._meta

    def _request(self) -> Any:
        request = jvm.load(f"{_COLLECTED}.ContainerLogsRequest")()
        request.setAppId(
            jvm.load("org.apache.hadoop.yarn.api.records.ApplicationId").fromString(
                self._report.application_id
            )
        )
        request.setAppOwner(self._report.user)
        request.setAppFinished(not alive(self._report))
        request.setBytes(2**63 - 1)
        return request


@contextmanager
def _printed() -> Iterator[Any]:
    """Catch what Java prints on ``System.out``: Hadoop's reader of logs knows no other place."""
    system = jvm.load("java.lang.System")
    before = system.out
    with tempfile.NamedTemporaryFile() as file:
        stream = jvm.load("java.io.PrintStream")(jvm.load("java.io.FileOutputStream")(file.name))
        system.setOut(stream)
        try:

            def read() -> bytes:
                stream.flush()
                return Path(file.name).read_bytes()

            yield read
        finally:
            system.setOut(before)
            stream.close()


def _listed(value: Any) -> list[Any]:
    """Return JSON that is a list, or one thing where YARN writes a list of one as itself."""
    if isinstance(value, dict):
        value = value.get("containerLogsInfo", value)
    return value if isinstance(value, list) else [value] if value else []


def _lines(texts: list[bytes]) -> int:
    return sum(text.count(b"\n") for text in texts)


def _age(name: str) -> tuple[int, str]:
    """Order a log and what was rotated out of it: oldest first."""
    number = name.rpartition(".")[2]
    return (-int(number), name) if number.isdigit() else (0, name)


def _set(values: list[str]) -> Any:
    made = jvm.load("java.util.HashSet")()
    for value in values:
        made.add(value)
    return made
