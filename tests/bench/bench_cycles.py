"""What a master holds after a hundred times of growing and shrinking."""

import tempfile
from pathlib import Path

import httpx
from bench.large_master import API_TOKEN, LargeMaster
from bench.row import Row

from tarn.testing.fake_fleet import FakeFleet

CYCLES = 100
# By then what is bounded (events, decisions, the ended) is as full as it gets.
BEFORE = 100
SMALL, LARGE = 2, 12
# So that a cycle takes half a second: a drain waits for some looks.
LOOK_EACH_S = 0.1
AIM_KIB = 4.0


def cycle_rows() -> list[Row]:
    """Grow from 2 to 12 instances and back: until what is bounded is full, then a hundred times."""
    with (
        FakeFleet(LARGE) as fleet,
        tempfile.TemporaryDirectory() as folder,
        LargeMaster(fleet.endpoints, SMALL, Path(folder), LOOK_EACH_S) as master,
        httpx.Client(
            base_url=f"http://127.0.0.1:{master.port}",
            headers={"X-TARN-Token": API_TOKEN},
            trust_env=False,
        ) as web,
    ):
        master.ask(f"reach {SMALL}")
        web.get("/livez").raise_for_status()  # the connection is kept
        fresh = master.ask("cost")
        _cycle(master, web, BEFORE)
        before = master.ask("cost")
        _cycle(master, web, CYCLES)
        after = master.ask("cost")
    grown_kib = 1024.0 * (after["rss_mib"] - before["rss_mib"]) / CYCLES
    name = f"{CYCLES} cycles of {SMALL} → {LARGE} → {SMALL} instances"
    return [
        Row(f"{name}: memory of a fresh master", fresh["rss_mib"], "MiB"),
        Row(f"{name}: memory after {BEFORE} cycles", before["rss_mib"], "MiB"),
        Row(f"{name}: memory that each cycle after those adds", grown_kib, "KiB", AIM_KIB),
        *(
            Row(f"{name}: {what} after, more than before", after[what] - fresh[what], what, 0.0)
            for what in ("threads", "descriptors", "files")
        ),
    ]


def _cycle(master: LargeMaster, web: httpx.Client, times: int) -> None:
    for _ in range(times):
        for size in (LARGE, SMALL):
            web.put("/api/v1/scale", json={"replicas": size}).raise_for_status()
            master.ask(f"reach {size}")


if __name__ == "__main__":
    for row in cycle_rows():
        print(f"{row.name}: {row.value:.3g} {row.unit}")
