"""34: the Java TARN asked every host in series while somebody waited for a page."""

import os
import signal
import time

import httpx
from compat.fleets import house, spec
from local.house import House

__all__ = ["house"]


def test_instances_that_hang_make_no_page_wait(house: House) -> None:
    """Pages show what was scraped last; nobody is asked while somebody waits for a page."""
    assert house.tarn("up", "-f", spec(house, 3)).returncode == 0
    url = house.ref("w")["url"]
    token = (house.directory("w") / "api_token").read_text()
    for pid in house.tritons("w"):
        os.kill(pid, signal.SIGSTOP)
    with httpx.Client(base_url=url, headers={"X-TARN-Token": token}, trust_env=False) as web:
        slowest_s = dict.fromkeys(("/health", "/metrics", "/instances"), 0.0)
        end_s = time.monotonic() + 2.0
        while time.monotonic() < end_s:
            for page in slowest_s:
                began_s = time.monotonic()
                web.get(page)
                slowest_s[page] = max(slowest_s[page], time.monotonic() - began_s)
    assert max(slowest_s.values()) < 0.2, slowest_s
