"""While there is no instance a request waits at HAProxy, and counts as one: real Tritons."""

import http.client
import json
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from house import until
from one_address import SharedAddress, no_haproxy, shared_address

pytestmark = pytest.mark.timeout(240)
BODY = json.dumps({"inputs": [{"name": "IN", "datatype": "UINT8", "shape": [2], "data": [1, 2]}]})
TARGET = {
    "use": "target",
    "options": {"target": 2},
    "cooldown": "0s",
    "down": {"window": "0s"},  # a test wants nothing of the one before it
}
WAITS_S = 60.0


@pytest.fixture
def waking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedAddress]:
    """A fleet of its own for each test: what waits in one is remembered for some seconds."""
    if reason := no_haproxy():
        pytest.skip(reason)
    root = tmp_path_factory.mktemp("waking")
    limits = {"min": 1, "max": 4, "initial": 1}  # a test lets it have none
    with shared_address(root, "waking", "identity", size=1, replicas=limits, scaling=TARGET) as one:
        yield one


def ask(one: SharedAddress) -> tuple[int, str]:
    """Return the status and the body of one inference."""
    link = http.client.HTTPConnection(one.addresses.http, timeout=WAITS_S)
    try:
        link.request("POST", "/v2/models/identity/infer", BODY)
        answer = link.getresponse()
        return answer.status, answer.read().decode()
    except (OSError, http.client.HTTPException) as error:
        return 0, f"{type(error).__name__}: {error}"
    finally:
        link.close()


def desired_since(one: SharedAddress, before: int) -> list[int]:
    """Return the sizes that were decided after the first *before* decisions."""
    return [int(row["desired"]) for row in one.fleet.api.decisions()][before:]


def test_requests_wake_a_fleet_of_none_and_none_is_refused(waking: SharedAddress) -> None:
    """Three at once, each counted once: with two for an instance, they want two."""
    api = waking.fleet.api
    api.adapt(0, 4)
    api.scale(0)
    until(lambda: not waking.fleet.all(), 60, "an empty fleet")
    api.adapt(0, 4)
    before = len(api.decisions())
    with ThreadPoolExecutor(3) as pool:
        got = list(pool.map(lambda _: ask(waking), range(3)))
    assert [status for status, _ in got] == [200] * 3, got
    sizes = desired_since(waking, before)
    assert sizes
    assert max(sizes) <= 2, api.decisions()


@contextmanager
def one_client(one: SharedAddress, got: Counter[tuple[int, str]]) -> Iterator[None]:
    """Ask one request after the other."""
    over = threading.Event()

    def ask_on() -> None:
        while not over.is_set():
            status, said = ask(one)
            got[status, "" if status == 200 else said] += 1
            over.wait(0.01)

    thread = threading.Thread(target=ask_on, name="one-client")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(WAITS_S)


def test_one_client_waits_while_the_only_instance_is_replaced(waking: SharedAddress) -> None:
    """However often: no request is refused or lost, and one waiting request wants one instance."""
    api, got = waking.fleet.api, Counter[tuple[int, str]]()
    api.scale(1)
    waking.settled(1)
    before = len(api.decisions())
    with one_client(waking, got):
        api.adapt(1, 4)
        for _ in range(3):
            old = str(waking.row()["id"])
            api.drain(old, now=True)
            until(lambda old=old: set(ids(waking)) - {old}, WAITS_S, "another instance")
            seen = got[200, ""]
            until(lambda seen=seen: got[200, ""] > seen + 5, WAITS_S, "answers")
    assert {status for status, _ in got} == {200}, got
    assert max(desired_since(waking, before), default=1) <= 1, [
        row["reason"] for row in api.decisions()
    ]


def ids(one: SharedAddress) -> list[str]:
    return [str(row["id"]) for row in one.fleet.ready().values()]
