"""Logs of masters and instances: from their nodes, or as YARN aggregated them.

A running master knows the container of each instance. If no master runs, this module finds the
instance of a log from the file next to it, which is named after the instance, or from the table of
options with which Triton's log begins: there ``server_id`` is the instance's id.
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
from tarn_plugins.runtime.yarn.hadoop.web import log_contents
from tarn_plugins.runtime.yarn.launch.launch_file import MARK

if TYPE_CHECKING:
    from tarn_plugins.runtime.yarn.client.cluster import Hadoop

__all__ = ["LogCache"]

_MASTER = re.compile(r"master\.stderr(\.\d+)?")
_INSTANCE = re.compile(r"triton\.stderr(\.\d+)?")
_ROTATED = re.compile(r"(master|triton)\.stderr\.\d+")
_SERVER_ID = re.compile(rb"server_id\s*\|\s*(\S+)\s*\|")
_AGGREGATED = "org.apache.hadoop.yarn.logaggregation"
# Files that a node still has; it also lists the aggregated ones, but does not show them.
_ON_NODE = "LOCAL"
_FRESH_S = 5.0
_BYTES_A_LINE, _LEAST_BYTES = 256, 64 * 1024


class LogCache:
    """Keeps the logs of the application that was read last. Only one thread may use it."""

    def __init__(self, hadoop: Callable[[], "Hadoop"]) -> None:
        self._hadoop = hadoop
        self._opened: tuple[str, float, ApplicationLogs] | None = None
        # Container id -> instance id, from the logs; they never change.
        self._ids: dict[str, str] = {}

    def write(  # noqa: PLR0913 (all by keyword)
        self,
        *,
        application_id: str,
        instance_id: str,
        container_id: str,
        host: str,
        into: str,
        tail: int | None = None,
    ) -> bool:
        """Write a log, or at least its last *tail* lines, to *into*; return False if there is none.

        Raises:
            ProviderError: The node does not show the log, and YARN has not aggregated it.
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
                next_step="Log in as the cluster's owner (with Kerberos, check `klist`), or try "
                "again when YARN has aggregated the log",
            )
        with open(into, "wb") as sink:  # noqa: PTH123 (a private file of the client)
            sink.writelines(texts)
        return bool(texts)

    def ids(self, application_id: str) -> tuple[str, ...]:
        """Return the ids of the instances whose logs YARN has aggregated."""
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
    """The logs of one application, at most a few seconds old.

    Args:
        hadoop: The connection to YARN.
        report: YARN's report of the application.
        ids: Container id -> instance id, filled while logs are read.
    """

    def __init__(
        self, hadoop: "Hadoop", report: ApplicationReport, ids: dict[str, str] | None = None
    ) -> None:
        self._hadoop, self._report = hadoop, report
        self._ids = {} if ids is None else ids
        self._meta: dict[str, tuple[str, ...]] | None = None
        self._nodes: dict[str, str] | None = None
        self.refused = ""
        """Why a node refused the last requested log, or empty."""
        # Containers whose instance could not be found so far.
        self._unidentified: set[str] = set()

    def master(self, tail: int | None = None) -> list[bytes]:
        """Return the logs of every attempt, oldest first, or enough for the last *tail* lines."""
        self.refused = ""
        found: list[bytes] = []
        # From the newest, so that older attempts are not read once there are enough lines.
        for container_id, node in reversed(list(self._attempts())):
            missing = None if tail is None else tail - _lines(found)
            if missing is not None and missing <= 0:
                break
            found[:0] = self._texts(container_id, node, _MASTER, missing)
        return found

    def instance(
        self, instance_id: str, container_id: str, host: str, tail: int | None = None
    ) -> list[bytes]:
        """Return the log of an instance; without *container_id*, search the aggregated logs.

        *host* is the container's node; if it is empty, only aggregated logs are read.
        """
        self.refused = ""
        if container_id:
            return self._texts(container_id, self._node(host), _INSTANCE, tail)
        found: list[bytes] = []
        for candidate in self._aggregated():
            if self._instance_of(candidate) == instance_id:
                found += self._from_aggregated(candidate, _INSTANCE)
        return found

    def ids(self) -> tuple[str, ...]:
        """Return the ids of the instances with aggregated logs."""
        found = {self._instance_of(candidate) for candidate in self._aggregated()}
        return tuple(sorted(found - {""}))

    def _instance_of(self, container_id: str) -> str:
        """Return the id of a container's instance, from its aggregated logs; '' if unknown."""
        # The file next to the log names the instance; without one, the log's content does.
        if container_id in self._unidentified:
            return ""
        if container_id not in self._ids:
            names = self._aggregated()[container_id]
            marks = [n.removeprefix(MARK) for n in names if n.startswith(MARK)]
            if not marks and any(_INSTANCE.fullmatch(n) for n in names):
                texts = self._from_aggregated(container_id, _INSTANCE)
                found = (_SERVER_ID.search(text) for text in texts)
                marks = [each[1].decode(errors="replace") for each in found if each]
            if not marks:  # more may be aggregated later
                self._unidentified.add(container_id)
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
        """Return a log, whose older part YARN may have aggregated and deleted from the node."""
        on_node = self._from_node(container_id, node, names, tail) if node else []
        if not on_node:
            return self._from_aggregated(container_id, names)
        enough = tail is not None and _lines(on_node) >= tail
        if enough or container_id not in self._aggregated():
            return on_node
        before = self._from_aggregated(container_id, _ROTATED)
        # A file is in both places for a moment, and must not be returned twice.
        both = bool(before) and len(on_node) > 1 and before[-1].endswith(on_node[0])
        return [*before, *(on_node[1:] if both else on_node)]

    def _attempts(self) -> Iterator[tuple[str, str]]:
        """Yield (container id, its node's web address) of each master, oldest first."""
        path = f"ws/v1/cluster/apps/{self._report.application_id}/appattempts"
        answer = self._hadoop.web.rest(path) or {}
        attempts = (answer.get("appAttempts") or {}).get("appAttempt") or []
        for each in sorted(attempts, key=lambda one: int(one.get("id", 0))):
            if each.get("containerId"):
                yield str(each["containerId"]), str(each.get("nodeHttpAddress", ""))

    def _from_node(
        self, container_id: str, node: str, names: re.Pattern[str], tail: int | None
    ) -> list[bytes]:
        """Return the logs that the NodeManager has neither aggregated nor deleted so far."""
        base = f"{web.scheme(self._hadoop.conf)}://{node}/ws/v1/node/containers/{container_id}/logs"
        try:
            listed = json.loads(self._hadoop.web.get(base))
            files = {
                str(info["fileName"])
                for part in _as_list(listed)
                if part.get("logAggregationType", _ON_NODE) == _ON_NODE
                for info in _as_list(part.get("containerLogInfo"))
            }
            wanted = sorted((f for f in files if names.fullmatch(f)), key=_age)
            found: list[bytes] = []
            for name in reversed(wanted):
                missing = None if tail is None else tail - _lines(found)
                if missing is None or missing > 0:
                    found[:0] = self._of_file(f"{base}/{quote(name)}", missing)
        except web.PageMissingError:
            return []  # the node has forgotten it
        except ProviderError as error:
            if error.retry_after_s is None:  # the node answered, and refused
                self.refused = error.found
            return []
        except (ValueError, KeyError):
            return []
        return found

    def _of_file(self, url: str, tail: int | None) -> list[bytes]:
        """Return a file from its node, or at least its last *tail* whole lines."""
        if tail is None:
            return [text for _name, text in log_contents(self._hadoop.web.get(url))]
        most = max(_LEAST_BYTES, tail * _BYTES_A_LINE)
        while True:
            printed = self._hadoop.web.get(f"{url}?size=-{most}")
            texts = [text for _name, text in log_contents(printed, most)]
            if not any(len(text) >= most for text in texts):
                return texts
            whole = [text.partition(b"\n")[2] for text in texts]
            if _lines(whole) >= tail:
                return whole
            # Lines are longer than assumed; few repetitions matter more than a few bytes too many.
            most *= 8

    def _from_aggregated(self, container_id: str, names: re.Pattern[str]) -> list[bytes]:
        """Return the aggregated logs of one container, as Hadoop's own reader prints them."""
        if container_id not in self._aggregated():
            self._meta = None  # the node may have aggregated its logs since they were listed
        wanted = sorted(
            (n for n in self._aggregated().get(container_id, ()) if names.fullmatch(n)), key=_age
        )
        if not wanted:
            return []
        request = self._request()
        request.setContainerId(container_id)
        request.setLogTypes(jvm.load("java.util.HashSet")(wanted))
        helper = jvm.load(f"{_AGGREGATED}.LogCLIHelpers")()
        helper.setConf(self._hadoop.conf)
        with _captured_output() as read:
            helper.dumpAContainerLogsForLogTypeWithoutNodeId(request)
            texts = dict[str, bytes]()
            for name, text in log_contents(read()):
                texts[name] = texts.get(name, b"") + text
        return [texts[name] for name in wanted if name in texts]

    def _aggregated(self) -> dict[str, tuple[str, ...]]:
        """Return the names of the aggregated files, by container id."""
        if self._meta is None:
            factory = jvm.load(f"{_AGGREGATED}.filecontroller.LogAggregationFileControllerFactory")(
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
                meta = {}  # YARN aggregated nothing, or has deleted it since
            self._meta = meta
        return self._meta

    def _request(self) -> Any:
        request = jvm.load(f"{_AGGREGATED}.ContainerLogsRequest")()
        request.setAppId(
            jvm.load("org.apache.hadoop.yarn.api.records.ApplicationId").fromString(
                self._report.application_id
            )
        )
        request.setAppOwner(self._report.user)
        request.setAppFinished(not alive(self._report))
        # Java's largest long: every byte.
        request.setBytes(2**63 - 1)
        return request


@contextmanager
def _captured_output() -> Iterator[Any]:
    """Capture Java's ``System.out``, the only place to which Hadoop's log reader can print."""
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


def _as_list(value: Any) -> list[Any]:
    """Return a JSON value as a list; YARN writes a list of one element as that element."""
    if isinstance(value, dict):
        value = value.get("containerLogsInfo", value)
    return value if isinstance(value, list) else [value] if value else []


def _lines(texts: list[bytes]) -> int:
    return sum(text.count(b"\n") for text in texts)


def _age(name: str) -> tuple[int, str]:
    """Return a key that sorts a log and its rotated files, oldest first."""
    number = name.rpartition(".")[2]
    return (-int(number), name) if number.isdigit() else (0, name)
