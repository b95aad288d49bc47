"""A provider that blocks for a minute, in a real master: nobody else notices."""

import statistics
import sys
import threading
import time

import httpx
import pytest
from house import House, kill, until
from stranger import install

pytestmark = [pytest.mark.triton, pytest.mark.endurance]

BLOCKED_S = 60.0
LOOK_S = 0.01
"""A tenth of the time between two snapshots, which say themselves when they were made."""
PLUGIN = '''
"""A discovery that never comes back."""

import threading

import attrs

from tarn.hookspecs import Factory, hookimpl


@attrs.frozen
class Settings:
    pass


class Blocked:
    def sync(self, view):
        threading.Event().wait()

    def applied(self):
        return None

    def close(self, *, withdraw):
        pass


@hookimpl
def tarn_discoveries():
    return {"blocked": Factory(Settings, lambda _settings, _context: Blocked(), "blocks for ever")}
'''


@pytest.mark.timeout(240)
def test_a_provider_blocked_for_a_minute_slows_nobody(
    house: House, capsys: pytest.CaptureFixture[str]
) -> None:
    """Snapshots go on, a killed instance leaves and is replaced, /health names the culprit."""
    house.environ["PYTHONPATH"] = install(house.root / "plugins", "blocked", PLUGIN)
    spec = house.spec(
        "blocked", discovery=[{"use": "blocked"}], scaling={"use": "fixed", "interval": "100ms"}
    )
    done = house.tarn("up", "-f", spec)
    assert done.returncode == 0, done.stderr
    began_s = time.monotonic()
    token = (house.directory("blocked") / "api_token").read_text().strip()
    with httpx.Client(
        base_url=str(house.ref("blocked")["url"]), headers={"X-TARN-Token": token}, trust_env=False
    ) as client:
        gaps_s = _watch(client, began_s + BLOCKED_S / 2)
        victim = client.get("/api/v1/status").json()["instances"][0]
        kill(int(victim["container_id"]))
        until(lambda: victim["http"] not in client.get("/instances").text, 3, "its leaving")
        until(lambda: len(client.get("/instances").text.split()) == 2, 30, "its replacement")
        assert client.put("/api/v1/scale", json={"replicas": 3}).status_code == 200
        until(lambda: len(client.get("/instances").text.split()) == 3, 30, "the third")
        gaps_s += _watch(client, began_s + BLOCKED_S)
        health = client.get("/health")
        assert health.text.splitlines()[0] == "OK"
        assert "discovery blocked has been at work for" in health.text
        warnings = client.get("/api/v1/status").json()["warnings"]
        assert any("blocked" in warning for warning in warnings), warnings
    with capsys.disabled():
        most_ms, median_ms = 1000 * max(gaps_s), 1000 * statistics.median(gaps_s)
        print(
            f"\n  one snapshot each {median_ms:.0f} ms (median), {most_ms:.0f} ms (most)",
            file=sys.stderr,
        )
    assert statistics.median(gaps_s) < 0.1 + 3 * 0.05


def _watch(client: httpx.Client, until_s: float) -> list[float]:
    """Return the times between snapshots, as a reader sees them until *until_s*."""
    gaps: list[float] = []
    moment = threading.Event()
    last = client.get("/api/v1/status").json()["at"]
    while time.monotonic() < until_s:
        at = client.get("/api/v1/status").json()["at"]
        if at != last:
            gaps.append(at - last)
            last = at
        moment.wait(LOOK_S)
    return gaps
