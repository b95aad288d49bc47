"""34: the Java TARN asked every host in series while somebody waited for a page."""

import os
import signal
import statistics
import time

import httpx
from compat.fleets import house, spec
from house import House

__all__ = ["house"]


def test_instances_that_hang_make_no_page_wait(house: House) -> None:
    """Pages show what was scraped last; nobody is asked while somebody waits for a page."""
    assert house.tarn("up", "-f", spec(house, 3)).returncode == 0
    url = house.ref("w")["url"]
    token = (house.directory("w") / "api_token").read_text()
    for pid in house.tritons("w"):
        os.kill(pid, signal.SIGSTOP)
    with httpx.Client(base_url=url, headers={"X-TARN-Token": token}, trust_env=False) as web:
        taken_s: dict[str, list[float]] = {"/health": [], "/metrics": [], "/instances": []}
        end_s = time.monotonic() + 2.0
        while time.monotonic() < end_s:
            for page, all_s in taken_s.items():
                began_s = time.monotonic()
                web.get(page)
                all_s.append(time.monotonic() - began_s)
    typical_s = {page: statistics.median(all_s) for page, all_s in taken_s.items()}
    assert typical_s["/health"] < 0.15
    assert max(typical_s.values()) < 0.6
    assert max(map(max, taken_s.values())) < 4.5  # three time-outs in series are longer
