"""16: the Java TARN's master ended with everything it had when it was asked to leave."""

import os
import signal
import time
from pathlib import Path

from compat.fleets import house, spec
from house import House, until

__all__ = ["house"]


def test_sigterm_ends_the_master_and_not_the_fleet(house: House) -> None:
    """It leaves quickly; the next attempt takes over the same processes, and `down` ends all."""
    assert house.tarn("up", "-f", spec(house, 2)).returncode == 0
    old, tritons = house.ref("w"), house.tritons("w")
    descriptor = os.pidfd_open(old["pid"])
    try:
        began_s = time.monotonic()
        signal.pidfd_send_signal(descriptor, signal.SIGTERM)
        until(lambda: not Path(f"/proc/{old['pid']}").exists(), 5, "the master's end")
        assert time.monotonic() - began_s < 2.0  # 0.2 s on a machine with nothing else to do
    finally:
        os.close(descriptor)
    until(lambda: house.ref("w")["pid"] != old["pid"], 20, "the next master")
    until(lambda: house.status("w")["ready"] == 2, 20, "its fleet")
    assert house.tritons("w") == tritons
    assert house.tarn("down", "-c", "w").returncode == 0
    assert house.processes("w") == {}
