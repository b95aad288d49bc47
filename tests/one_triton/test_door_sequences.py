"""Sequences of real Tritons behind a real HAProxy: every sum is right, or there is an error."""

import contextlib
import os
import queue
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from haproxy_tritons import view
from servers.haproxy import HAPROXY
from servers.keyed_haproxy import MODELS, RULES, KeyedHaproxy, SequenceClient
from servers.triton import needed, real_triton
from tritonclient.grpc import InferenceServerClient, InferInput

from tarn.clock import SystemClock
from tarn.domain import Endpoint, Member
from tarn.testing.wait import until
from tarn_plugins.discovery.haproxy.servers import HAProxyServers
from tarn_plugins.discovery.haproxy.settings import HaproxyTarget

pytestmark = [
    pytest.mark.one_triton,
    pytest.mark.timeout(300),
    pytest.mark.skipif(HAPROXY is None, reason="haproxy is not installed"),
    *needed,
]
COUNT, LAST = 3, 4


class RealFleet:
    """Three Tritons with a sequence model, and a HAProxy whose servers they are."""

    def __init__(self, root: Path, stack: contextlib.ExitStack) -> None:
        self.root = root
        self.processes = []
        members = []
        for number in range(1, COUNT + 1):
            folder = root / str(number)
            folder.mkdir()
            process, endpoint = stack.enter_context(real_triton(folder, 5, models=MODELS))
            self.processes.append(process)
            members.append(member(number, endpoint))
        self.members = members
        (root / "haproxy").mkdir()
        self.haproxy = stack.enter_context(KeyedHaproxy(root / "haproxy"))
        grpc = self.haproxy.settings.grpc_backend
        target = HaproxyTarget(self.haproxy.socket, grpc_backend=grpc, fleet="fleet")
        self.engine = HAProxyServers(target, SystemClock())
        stack.callback(self.engine.close, withdraw=False)
        self.engine.follow(RULES)
        self.engine.sync(view(1, *members))
        until(self.all_up, 60)
        self.number = 1000

    def all_up(self) -> bool:
        backends = ("triton_backend_keyed", "triton_grpc_backend_keyed")
        rows = [self.haproxy.statistics(one) for one in backends]
        servers = [[r for name, r in row.items() if name != "BACKEND"] for row in rows]
        return all(len(one) == COUNT and all(r["status"] == "UP" for r in one) for one in servers)

    def ids(self, count: int) -> range:
        """Return ids that no other test has."""
        self.number += count
        return range(self.number - count, self.number)

    def shares(self, backend: str) -> list[int]:
        rows = self.haproxy.statistics(backend).items()
        return [int(row["stot"]) for name, row in rows if name != "BACKEND"]


def member(number: int, endpoint: Endpoint) -> Member:
    return Member(f"fleet-{number:04d}", f"c-{number}", endpoint, "aaaaaaaaaaaa")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealFleet]:
    with contextlib.ExitStack() as stack:
        yield RealFleet(tmp_path_factory.mktemp("fleet"), stack)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"binary": False},
        {"values": 25_000},
        {"values": 25_000, "chunked": True},
        {"values": 25_000, "binary": False},
        {"values": 250_000},
    ],
    ids=["small", "json", "100KB", "chunked", "100KB-json", "1MB"],
)
def test_sums_over_http_are_right(fleet: RealFleet, body: dict[str, Any]) -> None:
    before = fleet.shares("triton_backend_keyed")
    client = SequenceClient(fleet.haproxy.http_port, **body)
    client.steps(fleet.ids(30), range(LAST + 1), LAST)
    assert (client.wrong(), client.failed()) == ({}, {})
    after = fleet.shares("triton_backend_keyed")
    assert all(now > then for now, then in zip(after, before, strict=True))


def test_what_cannot_be_read_is_refused_and_never_wrong(fleet: RealFleet) -> None:
    client = SequenceClient(fleet.haproxy.http_port, values=25_000, binary=False, first=False)
    client.steps(fleet.ids(3), range(2), LAST)
    assert client.wrong() == {}
    assert all(one[0] == 400 for row in client.got.values() for one in row)


def ones(values: int) -> InferInput:
    tensor = InferInput("IN", [1, values], "FP32")
    tensor.set_data_from_numpy(np.ones((1, values), np.float32))
    return tensor


def unary(fleet: RealFleet, seq: object, values: int, **more: Any) -> list[float]:
    client = InferenceServerClient(fleet.haproxy.grpc_address)
    try:
        found = [
            client.infer(
                "acc",
                [ones(values)],
                sequence_id=seq,
                sequence_start=step == 0,
                sequence_end=step == LAST,
                client_timeout=60,
                **more,
            )
            for step in range(LAST + 1)
        ]
        return [float(one.as_numpy("OUT").ravel()[0]) for one in found]
    finally:
        client.close()


@pytest.mark.parametrize("values", [1, 25_000, 250_000])
def test_sums_over_grpc_are_right(fleet: RealFleet, values: int) -> None:
    before = fleet.shares("triton_grpc_backend_keyed")
    with ThreadPoolExecutor(4) as pool:
        rows = list(pool.map(lambda seq: unary(fleet, seq, values), fleet.ids(20)))
    assert rows == [[1.0, 2.0, 3.0, 4.0, 5.0]] * 20
    after = fleet.shares("triton_grpc_backend_keyed")
    assert sum(now > then for now, then in zip(after, before, strict=True)) == COUNT


def test_compressed_grpc_needs_the_header(fleet: RealFleet) -> None:
    seq, other = fleet.ids(2)
    with pytest.raises(Exception, match="X-Sequence-Id"):
        unary(fleet, seq, 1000, compression_algorithm="gzip")
    headers = {"x-sequence-id": str(other)}
    row = unary(fleet, other, 1000, compression_algorithm="gzip", headers=headers)
    assert row == [1.0, 2.0, 3.0, 4.0, 5.0]


def test_sums_of_streams_are_right(fleet: RealFleet) -> None:
    """A stream stays on one instance, whatever its sequences."""

    def whole(ids: range) -> list[tuple[str, float]]:
        client, answers = InferenceServerClient(fleet.haproxy.grpc_address), queue.Queue[Any]()
        client.start_stream(callback=lambda result, error: answers.put((result, error)))
        try:
            for step in range(LAST + 1):
                for seq in ids:
                    client.async_stream_infer(
                        "acc",
                        [ones(1)],
                        request_id=f"{seq}-{step}",
                        sequence_id=seq,
                        sequence_start=step == 0,
                        sequence_end=step == LAST,
                    )
            got = [answers.get(timeout=60) for _ in range((LAST + 1) * len(ids))]
        finally:
            client.stop_stream()
            client.close()
        assert [error for _, error in got if error is not None] == []
        return [(r.get_response().id, float(r.as_numpy("OUT").ravel()[0])) for r, _ in got]

    with ThreadPoolExecutor(3) as pool:
        rows = list(pool.map(whole, [fleet.ids(6) for _ in range(3)]))
    for row in rows:
        assert len(row) == 6 * (LAST + 1)
        assert all(value == int(name.partition("-")[2]) + 1 for name, value in row)


def test_a_killed_instance_gives_errors_and_no_wrong_sum(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        _kill_one(RealFleet(tmp_path, stack))


def _kill_one(fleet: RealFleet) -> None:
    ids = fleet.ids(40)
    client = SequenceClient(fleet.haproxy.http_port)
    client.steps(ids, range(3), 9)
    assert client.failed() == {}
    os.killpg(fleet.processes[0].pid, signal.SIGKILL)
    client.steps(ids, range(3, 10), 9)
    assert client.wrong() == {}
    failed = client.failed()
    assert 5 < len(failed) < 30
    assert all(
        isinstance(x, tuple) for row in failed.values() for x in row[row.index(fault(row)) :]
    )


def fault(row: list[object]) -> object:
    """Return the first error: after it no step may succeed, as the state is lost."""
    return next(one for one in row if isinstance(one, tuple))
