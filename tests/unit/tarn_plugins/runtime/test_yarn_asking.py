"""What AMRMClient holds of asks that were rejected, cancelled and said again: plain objects."""

from types import SimpleNamespace
from typing import Any

import pytest

from tarn_plugins.runtime.yarn.hadoop import clients as module
from tarn_plugins.runtime.yarn.hadoop.clients import Handles
from tarn_plugins.runtime.yarn.messages import Ask, Exchange, Shape

ASK = Ask(1, Shape(1024, 1))


class Request:
    """A SchedulingRequest with a count."""

    def __init__(self, number: int, count: int) -> None:
        self.number, self.count = number, count

    def getResourceSizing(self) -> Any:  # noqa: N802 (Java's)
        return self

    def setNumAllocations(self, count: int) -> None:  # noqa: N802 (Java's)
        self.count = count

    def getAllocationRequestId(self) -> int:  # noqa: N802 (Java's)
        return self.number


class Client:
    """As AMRMClient: of one key it keeps the first request, and each later one's count."""

    def __init__(self) -> None:
        self.outstanding: dict[int, Request] = {}
        self.rejecting: list[Request] = []

    def addSchedulingRequests(self, requests: list[Request]) -> None:  # noqa: N802 (Java's)
        for request in requests:
            self.outstanding.setdefault(request.number, request).count = request.count

    def allocate(self, _progress: float) -> Any:
        rejected, self.rejecting = self.rejecting, []
        dropped = [
            SimpleNamespace(getRequest=lambda r=r: r, getReason=lambda: "no place")
            for r in rejected
        ]
        return SimpleNamespace(
            getAllocatedContainers=list,
            getContainersFromPreviousAttempts=list,
            getRejectedSchedulingRequests=lambda: dropped,
            getCompletedContainersStatuses=list,
            getUpdatedNodes=list,
            getPreemptionMessage=lambda: None,
            getAvailableResources=lambda: None,
            getNumClusterNodes=lambda: 3,
        )


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    client = Client()
    monkeypatch.setattr(module, "_rm_client", lambda _handles, _conf: client)
    monkeypatch.setattr(module, "load", lambda _name: None)
    monkeypatch.setattr(module, "throwable", lambda: ZeroDivisionError)
    monkeypatch.setattr(module, "unknown_types", lambda _shape: ())
    monkeypatch.setattr(module, "constrained", lambda ask, count: Request(ask.number, count))
    return client


def test_a_rejected_ask_is_not_said_to_a_restarted_rm(client: Client) -> None:
    """It may be cancelled before it is asked again, and nobody tells the client of that."""
    rm = module.HadoopResourceManager(
        Handles.__new__(Handles), None, mode="scheduling", epoch="1-1"
    )
    client.rejecting = [Request(1, 1)]
    answer = rm.exchange(Exchange(asks=(ASK,)))
    assert [each.number for each in answer.rejected] == [1]
    assert client.outstanding[1].count == 0
    rm.exchange(Exchange(asks=(ASK,)))
    assert client.outstanding[1].count == 1
    client.rejecting = [Request(1, 1)]
    rm.exchange(Exchange())
    assert client.outstanding[1].count == 0
