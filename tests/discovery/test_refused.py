"""One client that is refused and tries again is one client, however often HAProxy counts it."""

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from house import until
from proxied_fleet import ProxiedFleet, proxied_fleet
from servers.lb_agent import fake_tritons

pytestmark = pytest.mark.discovery

AGAIN_S = 0.01
ENOUGH = 5
TARGET = {"use": "target", "options": {"target": 2}, "cooldown": "0s"}


@contextmanager
def one_client(address: str, refused: list[int]) -> Iterator[None]:
    """Ask without a pause; after each 503 after 10 ms."""
    over = threading.Event()

    def ask() -> None:
        while not over.is_set():
            connection = http.client.HTTPConnection(address, timeout=1)
            try:
                connection.request("GET", "/v2/models/echo/ready")
                if connection.getresponse().status == 503:
                    refused.append(1)
            except (OSError, http.client.HTTPException):  # cut or held by the drain: it asks again
                pass
            finally:
                connection.close()
            over.wait(AGAIN_S)

    thread = threading.Thread(target=ask, name="one-client")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(20)


def replaced_at_once(stage: ProxiedFleet) -> None:
    """Drain the only instance before its replacement is there, and wait for that."""
    (old,) = (str(row["id"]) for row in stage.fleet.ready().values())
    stage.fleet.api.drain(old, now=True)
    until(lambda: {row["id"] for row in stage.fleet.ready().values()} - {old}, 60, "another")
    stage.fleet.settled(stage.door, 1)


@pytest.mark.timeout(150)
def test_a_client_that_tries_again_asks_for_one_instance(tmp_path: Path) -> None:
    """The only instance is drained at once: its replacement comes, and no other one."""
    keys = {**fake_tritons(tmp_path), "scaling": TARGET}
    program = tmp_path / "tritonserver"  # its start leaves the time for many refusals
    program.write_text(program.read_text().replace("exec", "sleep 4\nexec", 1))
    with proxied_fleet(tmp_path, "refused", keys) as stage:
        api, refused = stage.fleet.api, list[int]()
        api.scale(1)
        stage.fleet.settled(stage.door, 1)
        with one_client(stage.door.address, refused):
            api.adapt()
            for _ in range(5):  # a request that HAProxy holds during the drain is not refused
                replaced_at_once(stage)
                if len(refused) > ENOUGH:
                    break
        assert len(refused) > ENOUGH
        sizes = [row["desired"] for row in api.decisions()]
        assert max(sizes[1:]) <= 2, api.decisions()  # 2: as it was started
        assert sizes[-1] == 1
