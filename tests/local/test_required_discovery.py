"""A required discovery that cannot be reached, in a real start."""

import pytest
from house import House
from stranger import install

pytestmark = pytest.mark.triton

PLUGIN = '''
"""A discovery whose outside world is away."""

import attrs

from tarn.errors import DiscoveryError
from tarn.hookspecs import Factory, hookimpl


@attrs.frozen
class Settings:
    pass


class Away:
    def reach(self, within_s):
        raise DiscoveryError("away", "no server of zk1:2181 answers")

    def sync(self, view):
        self.reach(0.0)

    def applied(self):
        return None

    def close(self, *, withdraw):
        pass


@hookimpl
def tarn_discoveries():
    return {"away": Factory(Settings, lambda _settings, _context: Away(), "is away")}
'''


@pytest.mark.timeout(120)
def test_a_start_ends_and_says_which_discovery_is_away(house: House) -> None:
    """The very line of the master; nothing is left. Not required, it starts and is shown."""
    house.environ["PYTHONPATH"] = install(house.root / "plugins", "away", PLUGIN)
    spec = house.spec("needs", discovery=[{"use": "away", "required": True}])
    done = house.tarn("up", "-f", spec)
    assert done.returncode == 1
    assert "discovery away: it is required, and was not reached" in done.stderr
    assert "no server of zk1:2181 answers" in done.stderr
    assert not house.processes("needs")
    replicas = {"min": 0, "max": 1, "initial": 0}
    done = house.tarn(
        "up", "-f", house.spec("goes", discovery=[{"use": "away"}], replicas=replicas)
    )
    assert done.returncode == 0, done.stderr
    (shown,) = house.status("goes")["followers"]
    assert (shown["name"], shown["required"], shown["revision"]) == ("away", False, -1)
    assert "no server of zk1:2181 answers" in shown["error"]
