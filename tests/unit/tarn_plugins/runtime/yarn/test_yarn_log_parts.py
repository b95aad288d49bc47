"""Logs put together from what a node has and what YARN collected, without a YARN."""

import json
import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import attrs
import pytest

from tarn.errors import NotFoundError, ProviderError
from tarn_plugins.runtime.yarn.client.logs import ApplicationLogs, LogCache
from tarn_plugins.runtime.yarn.client.reports import ApplicationReport
from tarn_plugins.runtime.yarn.hadoop.web import NodeLogs, PageMissingError
from tarn_plugins.runtime.yarn.master.slots import InstanceSlot, InstanceSlots
from tarn_plugins.runtime.yarn.messages import AllocatedContainer

GRANT = AllocatedContainer("container_1", 1, "nm1", 8041, "nm1:8042")
TABLE = b"| server_id                        | ocr-0009                 |\n"


def lines(first: int, last: int) -> bytes:
    return b"".join(b"line %d\n" % number for number in range(first, last + 1))


class Node:
    """The web server of a NodeManager: names of files to what is in them."""

    def __init__(self, **files: bytes) -> None:
        self.files = {name.replace("__", "."): data for name, data in files.items()}
        self.asked: list[str] = []
        self.refuses = ""
        self.kind = ProviderError
        self.collected: list[str] = []
        """Names that it lists and shows no more."""

    def get(self, url: str) -> bytes:
        self.asked.append(url.rpartition("/logs")[2])
        if self.refuses:
            raise self.kind("yarn", self.refuses, where=url)
        parts = urlsplit(url)
        name = parts.path.rpartition("/logs")[2].lstrip("/")
        if not name:
            return self._listing()
        if name not in self.files:
            raise PageMissingError("yarn", "answers 404", where=url)
        data = self.files[name]
        size = int(parse_qs(parts.query).get("size", ["0"])[0])
        shown = data[max(0, len(data) + size) :] if size < 0 else data
        head = f"Container: c on nm1\nLogType:{name}\nLogLength:{len(data)}\nLogContents:\n"
        return head.encode() + shown + f"\nEnd of LogType:{name}\n".encode()

    def _listing(self) -> bytes:
        here = [{"fileName": name} for name in self.files]
        gone = [{"fileName": name} for name in self.collected]
        parts: list[dict[str, Any]] = [{"containerLogInfo": here, "logAggregationType": "LOCAL"}]
        if gone:  # YARN writes a list of one as itself
            parts.append({"containerLogInfo": gone[0], "logAggregationType": "AGGREGATED"})
        return json.dumps({"containerLogsInfo": parts}).encode()


def tail(node: Node, count: int):
    return NodeLogs(node.get).tail(GRANT, count)


def test_a_master_asks_the_node_for_the_end_of_a_log() -> None:
    """No more of it than the lines need."""
    node = Node(triton__stderr=lines(1, 100_000))
    found = tail(node, 3)
    assert found.lines == ("line 99998", "line 99999", "line 100000")
    assert found.truncated
    assert node.asked == ["/triton.stderr?size=-65536"]
    assert len(tail(node, 2000).lines) == 2000


def test_long_lines_are_asked_for_once_more_and_no_further_than_a_mebibyte() -> None:
    """What is cut in the middle is left out."""
    node = Node(triton__stderr=b"".join(b"%04d%s\n" % (n, b"x" * 4091) for n in range(1000)))
    found = tail(node, 400)
    assert len(found.lines) == 255
    assert found.lines[-1].startswith("0999x")
    assert all(len(line) == 4095 for line in found.lines)
    assert found.truncated
    assert len(node.asked) == 2


def test_what_was_moved_aside_is_part_of_the_log() -> None:
    """While the node has it; a log that fits is whole."""
    node = Node(triton__stderr=lines(8, 10), triton__stderr__1=lines(1, 7))
    assert tail(node, 5).lines == ("line 6", "line 7", "line 8", "line 9", "line 10")
    assert tail(node, 5).truncated
    whole = tail(node, 10)
    assert (len(whole.lines), whole.truncated) == (10, False)
    del node.files["triton.stderr.1"]
    assert tail(node, 5).lines == ("line 8", "line 9", "line 10")
    assert tail(Node(triton__stderr=b""), 5).lines == ()


def test_a_node_that_has_no_log_or_shows_none_is_told_apart() -> None:
    """404 is no log; everything else has a code, and what helps."""
    with pytest.raises(NotFoundError, match="nm1 has no log of the container container_1"):
        tail(Node(), 5)
    node = Node()
    node.refuses = "refuses the Kerberos ticket"
    with pytest.raises(ProviderError, match="refuses the Kerberos ticket") as caught:
        tail(node, 5)
    assert caught.value.code == "TARN-3811"
    assert "tarn logs" in caught.value.next_step


class Hadoop:
    """What logs are asked through."""

    def __init__(self, node: Node) -> None:
        self.web = node
        self.conf: dict[str, str] = {}

    def nodes(self) -> dict[str, str]:
        return {"nm1": "nm1:8042"}


class Collected(ApplicationLogs):
    """Logs of which YARN collected some: container id to name to content."""

    def __init__(self, node: Node, there: dict[str, dict[str, bytes]]) -> None:
        super().__init__(Hadoop(node), ApplicationReport("application_1", "RUNNING"))  # type: ignore[arg-type]
        self.there = there
        self.read: list[str] = []

    def _aggregated(self) -> dict[str, tuple[str, ...]]:
        return {id_: tuple(files) for id_, files in self.there.items()}

    def _from_aggregated(self, container_id: str, names: re.Pattern[str]) -> list[bytes]:
        self.read.append(container_id)
        found = self.there.get(container_id, {})
        return [found[name] for name in sorted(found, reverse=True) if names.fullmatch(name)]

    def _attempts(self):
        yield from (("am1", "nm1:8042"), ("am2", "nm1:8042"))


def whole(logs: ApplicationLogs, count: int | None = None) -> bytes:
    return b"".join(logs.instance("ocr-0001", "container_1", "nm1", count))


def test_a_live_log_is_what_was_collected_and_what_the_node_has() -> None:
    """A node lists what it collected, and shows it not; for a moment both have it."""
    node = Node(triton__stderr=lines(8, 10), launch_container__sh=b"secret\n")
    node.collected = ["triton.stderr.1"]
    logs = Collected(node, {"container_1": {"triton.stderr.1": lines(1, 7)}})
    assert whole(logs) == lines(1, 10)
    node.files["triton.stderr.1"] = lines(4, 7)
    assert whole(logs) == lines(1, 10)
    logs.there["container_1"]["triton.stderr.1"] = lines(1, 3)
    assert whole(logs) == lines(1, 10)
    logs.there = {}
    assert whole(logs) == lines(4, 10)


def test_the_end_of_a_live_log_is_all_that_is_asked_for() -> None:
    """What was collected is read only where the node has too little."""
    node = Node(triton__stderr=lines(1001, 90_000), triton__stderr__1=lines(1, 1000))
    logs = Collected(node, {"container_1": {"triton.stderr.1": lines(1, 3)}})
    found = whole(logs, 4).splitlines()
    assert found[-4:] == lines(89_997, 90_000).splitlines()
    assert len(found) < 10_000
    assert logs.read == []
    assert not any("stderr.1" in asked for asked in node.asked)
    long = b"".join(b"%s\n" % (b"x" * 5000) for _ in range(200))
    node.files["triton.stderr"] = long
    assert whole(logs, 190).count(b"\n") >= 190


def test_a_log_whose_node_is_gone_is_what_was_collected() -> None:
    """So is one of a host that YARN does not know."""
    kept = {"triton.stderr": lines(4, 5), "triton.stderr.1": lines(1, 3)}
    logs = Collected(Node(), {"container_1": kept})
    logs._hadoop.web.refuses = "does not answer"  # type: ignore[attr-defined]
    assert whole(logs) == lines(1, 5)
    assert b"".join(logs.instance("ocr-0001", "container_1", "elsewhere")) == lines(1, 5)


def test_a_node_that_refuses_is_told_where_nothing_was_collected(tmp_path, monkeypatch) -> None:
    """In its own words; one that does not answer, or has forgotten it, is no log."""
    hadoop, node = Hadoop(Node()), Node()
    hadoop.web = node
    hadoop.report = lambda id_: ApplicationReport(id_, "RUNNING")  # type: ignore[attr-defined]
    monkeypatch.setattr(ApplicationLogs, "_aggregated", lambda _self: {})
    into = tmp_path / "log"
    parts = {
        "application_id": "application_1",
        "instance_id": "ocr-0001",
        "container_id": "container_1",
        "host": "nm1",
        "into": str(into),
    }
    assert LogCache(lambda: hadoop).write(**parts) is False  # type: ignore[arg-type, return-value]
    node.refuses, node.kind = "answers 404", PageMissingError
    assert LogCache(lambda: hadoop).write(**parts) is False  # type: ignore[arg-type, return-value]
    node.refuses, node.kind = "answers 500", ProviderError
    with pytest.raises(ProviderError, match="does not show the log: answers 500") as caught:
        LogCache(lambda: hadoop).write(**parts)  # type: ignore[arg-type, return-value]
    assert caught.value.code == "TARN-3811"
    node.refuses, node.files = "", {"triton.stderr": lines(1, 2)}
    assert LogCache(lambda: hadoop).write(**parts) is True  # type: ignore[arg-type, return-value]
    assert into.read_bytes() == lines(1, 2)


def test_what_was_collected_is_found_by_its_instance() -> None:
    """By the file beside it, else by Triton's own table; each is read once for that."""
    logs = Collected(
        Node(),
        {
            "c1": {"triton.stderr": lines(1, 2), "instance-ocr-0001": b"instance-ocr-0001\n"},
            "c2": {"triton.stderr": TABLE + lines(3, 4)},
            "c3": {"triton.stderr": b"ended before it said anything\n"},
            "am1": {"master.stderr": lines(5, 6)},
        },
    )
    assert logs.ids() == ("ocr-0001", "ocr-0009")
    assert sorted(logs.read) == ["c2", "c3"]
    assert b"".join(logs.instance("ocr-0009", "", "")) == TABLE + lines(3, 4)
    assert b"".join(logs.instance("ocr-0001", "", "")) == lines(1, 2)
    assert logs.instance("ocr-0002", "", "") == []
    assert logs.read.count("c3") == 1


def test_the_masters_log_is_that_of_every_attempt() -> None:
    """Of a tail only the last ones are asked for."""
    node = Node(master__stderr=lines(1, 3))
    logs = Collected(node, {})
    assert b"".join(logs.master()) == lines(1, 3) * 2
    asked = len(node.asked)
    assert b"".join(logs.master(2)).endswith(lines(2, 3))
    assert len(node.asked) - asked == 2, "the list of one attempt, and its log"
    assert b"".join(logs.master(4)) == lines(1, 3) * 2


def test_where_an_instance_was_is_known_after_its_end() -> None:
    """For its log; of the oldest it is forgotten."""
    slots = InstanceSlots()
    for number in range(1, 203):
        id_ = f"ocr-{number:04}"
        slots[id_] = InstanceSlot(
            id_, number, "hash", 0.0, grant=attrs.evolve(GRANT, number=number)
        )
        slots.forget(slots[id_])
    assert len(slots) == 0
    assert slots.grant("ocr-0001") is None
    assert slots.grant("ocr-0003") == attrs.evolve(GRANT, number=3)
    slots["ocr-0203"] = InstanceSlot("ocr-0203", 203, "hash", 0.0)
    assert slots.grant("ocr-0203") is None
