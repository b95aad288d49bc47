"""How fast the pages are answered while one instance hangs and ten cannot be reached."""

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import httpx
from bench.bench_http import asked as load
from bench.bench_http import percentiles
from bench.row import Row
from silent_master import API_TOKEN, silent_master

from tarn.testing.wait import until

PAGES = ("/metrics", "/instances", "/health", "/dashboard", "/api/v1/status")
ROUNDS = 5
RATE = 100
AIM_MS = 50.0
# Its /metrics waits for each instance; of its other pages nothing was measured.
JAVA = {"/metrics": ("Java TARN", 6000.0)}


def silent_rows() -> list[Row]:
    """Measure each page, 100 a second over four connections, in interleaved rounds."""
    each: dict[str, list[list[float]]] = {page: [] for page in PAGES}
    with tempfile.TemporaryDirectory() as folder, silent_master(Path(folder)) as url:
        ready(url)
        for _ in range(ROUNDS):
            for page in PAGES:
                each[page].append(asked(url, page, 2.0)["took_s"])
    rows = []
    for page, took_s in each.items():
        name = f"{page}, 1 instance hangs and 10 are unreachable, {RATE}/s"
        rows += percentiles(name, took_s, (None, AIM_MS), JAVA.get(page, ("", None)))
    return rows


def ready(url: str) -> None:
    """Wait until the good instance serves: by then the others have been asked, too."""
    headers = {"X-TARN-Token": API_TOKEN}
    with httpx.Client(base_url=url, headers=headers, trust_env=False) as web:
        until(lambda: web.get("/instances").text.count("\n") == 1, 20, "the good instance")
        until(
            lambda: web.get("/api/v1/status").json()["instances"][1]["state"] == "starting",
            20,
            "the one that hangs",
        )


def asked(url: str, page: str, seconds: float, rate: int = RATE) -> Mapping[str, list[float]]:
    """Ask for *page* at *rate* from a process of its own; return latencies and lateness, seconds.

    Latency counts from the moment at which the question was due.
    """
    return load(
        path=page,
        port=urlsplit(url).port,
        api_token=API_TOKEN,
        connections=4,
        seconds=seconds,
        rate=rate,
    )


if __name__ == "__main__":
    for row in silent_rows():
        sys.stdout.write(f"{row.name}: {row.value:.2f} {row.unit} (aim {row.aim})\n")
