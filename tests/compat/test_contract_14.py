"""14: the Java TARN's client took its fleet along: by its port, its hook, or any error."""

import socket

from compat.fleets import house, spec
from house import House, until

__all__ = ["house"]


def test_an_occupied_port_starts_nothing(house: House) -> None:
    """It is found before, not after the submission."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        path = spec(house, api={"port": taken.getsockname()[1]})
        done = house.tarn("up", "-f", path)
    assert done.returncode == 1
    assert "TARN-3103" in done.stderr
    assert house.processes("w") == {}


def test_a_client_that_is_killed_leaves_the_fleet_running(house: House) -> None:
    """Its signal handlers, its notebook and its terminal are no part of a cluster."""
    client = house.start("up", "-f", spec(house, 2), "--no-wait")
    until((house.directory("w") / "ref.json").exists, 30, "a master")
    client.kill()
    client.communicate(timeout=10)
    until(lambda: house.status("w")["ready"] == 2, 30, "the fleet")
