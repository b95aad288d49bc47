"""Logs of masters and instances: from the node while it has them, else as YARN collected them.

Which container an instance had is told by the master while one is at work. Afterwards nobody
remembers, so the logs themselves are asked: Triton's own begins with a table of its options, and
the ``server_id`` in it is the instance's id.
"""

import json
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import quote

from tarn.errors import ProviderError
from tarn.java import jvm
from tarn_plugins.runtime.yarn.client.reports import Report, alive
from tarn_plugins.runtime.yarn.hadoop import web
from tarn_plugins.runtime.yarn.log_text import contents

if TYPE_CHECKING:
    from tarn_plugins.runtime.yarn.client.cluster import Hadoop

__all__ = ["Logs"]

_MASTER = re.compile(r"master\.stderr(\.\d+)?")
_INSTANCE = re.compile(r"triton\.stderr(\.\d+)?")
_COLLECTED = "org.apache.hadoop.yarn.logaggregation"


class Logs:
    """The logs of one application."""

    def __init__(self, hadoop: "Hadoop", report: Report) -> None:
        self._hadoop, self._report = hadoop, report
        self._meta: dict[str, tuple[str, ...]] | None = None

    def master(self, sink: IO[bytes]) -> bool:
        """Write the logs of every attempt, oldest first; False: there is none."""
        found = False
        for container_id, node in self._attempts():
            found |= self._write(sink, container_id, node, _MASTER)
        return found

    def instance(self, sink: IO[bytes], instance_id: str, container_id: str, host: str) -> bool:
        """Write the log of an instance; without a *container_id* the collected logs are searched.

        *host* is where the container is or was; empty: only collected logs are looked at.
        """
        if container_id:
            node = self._hadoop.nodes().get(host, "") if host else ""
            return self._write(sink, container_id, node, _INSTANCE)
        found = False
        mark = re.compile(rb"server_id\s*\|\s*" + re.escape(instance_id.encode()) + rb"\s*\|")
        for candidate in self._collected():
            texts = self._from_collected(candidate, _INSTANCE)
            if any(mark.search(text) for text in texts):
                sink.writelines(texts)
                found = True
        return found

    def _write(self, sink: IO[bytes], container_id: str, node: str, names: re.Pattern[str]) -> bool:
        texts = self._from_node(container_id, node, names) if node else []
        texts = texts or self._from_collected(container_id, names)
        sink.writelines(texts)
        return bool(texts)

    def _attempts(self) -> Iterator[tuple[str, str]]:
        """Yield (container id, ``host:port`` of its node's web server) of each master, by age."""
        path = f"ws/v1/cluster/apps/{self._report.application_id}/appattempts"
        answer = self._hadoop.web.rest(path) or {}
        tries = (answer.get("appAttempts") or {}).get("appAttempt") or []
        for each in sorted(tries, key=lambda one: int(one.get("id", 0))):
            if each.get("containerId"):
                yield str(each["containerId"]), str(each.get("nodeHttpAddress", ""))

    def _from_node(self, container_id: str, node: str, names: re.Pattern[str]) -> list[bytes]:
        """Ask the NodeManager: it has the logs until they are collected, or grow too old."""
        base = f"{web.scheme(self._hadoop.conf)}://{node}/ws/v1/node/containers/{container_id}/logs"
        try:
            listed = json.loads(self._hadoop.web.get(base))
            files = [
                str(info["fileName"])
                for part in _listed(listed)
                for info in _listed(part.get("containerLogInfo"))
            ]
            wanted = sorted((f for f in files if names.fullmatch(f)), key=_age)
            answers = [self._hadoop.web.get(f"{base}/{quote(f)}") for f in dict.fromkeys(wanted)]
        except (ProviderError, ValueError, KeyError):
            return []  # the node is gone, or has forgotten it
        return [text for answer in answers for _name, text in contents(answer)]

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


def _age(name: str) -> tuple[int, str]:
    """Order a log and what was rotated out of it: oldest first."""
    number = name.rpartition(".")[2]
    return (-int(number), name) if number.isdigit() else (0, name)


def _set(values: list[str]) -> Any:
    made = jvm.load("java.util.HashSet")()
    for value in values:
        made.add(value)
    return made
