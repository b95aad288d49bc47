"""A whole master over many fake Tritons, in a process of its own that answers questions.

``python -m bench.large_master`` reads a line of JSON from stdin: the endpoints of the fakes, how
many instances there are at first, a directory, and the interval of the looks. It says its port once
it has announced itself. Then it answers lines: ``reach N`` (null once exactly N instances serve,
and no other is left), ``ages`` (seconds since each instance was last looked at), ``suspected`` (how
often one was), ``cost`` (CPU seconds, memory, threads, descriptors, files). It leaves when stdin
ends.
"""

import contextlib
import gc
import json
import os
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import attrs
from master_in_thread import at_work, brought, running

from tarn import descriptors, master
from tarn.control.scrape import Scraper
from tarn.domain import (
    Choice,
    ClusterSpec,
    Ended,
    Endpoint,
    ExitStatus,
    Fact,
    Known,
    Recovered,
    Running,
    RuntimeWish,
)
from tarn.domain.spec import DrainSpec
from tarn.hookspecs import RuntimeFactory, hookimpl
from tarn.log import begin
from tarn.read.snapshot import Board
from tarn.testing.context import cluster_spec
from tarn.testing.fakes import FakeRuntime

API_TOKEN = "the-api-token-of-a-large-fleet"
WITHIN_S = 120.0


class LargeMaster:
    """The process; a context manager that ends it.

    Args:
        endpoints: Where the fakes are.
        instances: How many of them are wanted at first.
        directory: Of the cluster.
        interval_s: Between two looks at an instance.
    """

    def __init__(
        self,
        endpoints: tuple[Endpoint, ...],
        instances: int,
        directory: Path,
        interval_s: float = 1.0,
    ) -> None:
        places = [(e.host, e.http_port, e.metrics_port) for e in endpoints]
        self._asked = [places, instances, str(directory), interval_s]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.large_master"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid, self.port = self._process.pid, 0

    def __enter__(self) -> Self:
        """Start it; it has announced itself when this returns."""
        self.port = self.ask(json.dumps(self._asked))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._process as process:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()

    def ask(self, line: str) -> Any:
        """Return the answer to *line*."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{line}\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the master ended with code {process.wait(WITHIN_S)}")
        return json.loads(answer)


class _Runtime(FakeRuntime):
    """Starts each instance at once at a place of a fake, which is free again when it has ended.

    It keeps nothing of the instances that ended, so that what grows is the master's own.
    """

    def __init__(self, endpoints: tuple[Endpoint, ...]) -> None:
        super().__init__()
        self._lock, self._free = threading.Lock(), deque(endpoints)
        self._held: dict[str, Running | Ended] = {}

    def start(self, api_url: str) -> Recovered:
        self.api_url = api_url
        return Recovered()

    def apply(self, wish: RuntimeWish) -> None:
        with self._lock:
            named = {id_ for id_, _ in wish.want} | wish.stop
            for id_, fact in tuple(self._held.items()):
                if id_ in wish.stop and isinstance(fact, Running):
                    self._free.append(fact.endpoint)
                    exit_status = ExitStatus("stopped as asked", 0, expected=True)
                    self._held[id_] = Ended(id_, fact.spec_hash, exit_status)
                elif id_ not in named:
                    del self._held[id_]
            for id_, spec_hash in sorted(wish.want):
                if id_ not in self._held:
                    place = self._free.popleft()
                    self._held[id_] = Running(id_, spec_hash, f"c-{id_}", place.host, place)

    def facts(self) -> tuple[Fact, ...]:
        with self._lock:
            return tuple(self._held.values())

    def heard_s(self) -> float:
        return time.monotonic()


@attrs.frozen
class _Plugin:
    runtime: FakeRuntime

    @hookimpl
    def tarn_runtimes(self) -> Mapping[str, RuntimeFactory]:
        return {"found": running(self.runtime)}


class _Kept:
    """The master's own objects that a question is about."""

    def __init__(self) -> None:
        self.scrapers: list[Scraper] = []
        self.boards: list[Board] = []
        kept_scrapers, kept_boards = self.scrapers, self.boards

        class KeptScraper(Scraper):
            def __init__(self, *arguments: Any, **more: Any) -> None:
                super().__init__(*arguments, **more)
                kept_scrapers.append(self)

        class KeptBoard(Board):
            def __init__(self, *arguments: Any) -> None:
                super().__init__(*arguments)
                kept_boards.append(self)

        master.Scraper = KeptScraper
        master.Board = KeptBoard

    def ages_s(self) -> Iterator[float]:
        """Yield how long ago each instance was last looked at."""
        now_s = time.monotonic()
        for reading in self.scrapers[-1].readings().values():
            if isinstance(reading.live, Known):
                yield now_s - (reading.taken_s - reading.live.age_s)

    def reach(self, ready: int) -> None:
        """Wait until exactly *ready* instances serve, and no other is left."""
        reached, board = threading.Event(), self.boards[-1]

        def look(now: Any) -> None:
            if now.ready == ready == len(now.instances):
                reached.set()

        unsubscribe = board.subscribe(look)
        look(board.current)
        if not reached.wait(WITHIN_S):
            raise TimeoutError(f"{board.current.ready} of {ready} are ready")
        unsubscribe()


def cost() -> dict[str, float]:
    """Return what this process has used and holds."""
    cpu_s = time.process_time()
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    opened = list(_opened())
    return {
        "cpu_s": cpu_s,
        "rss_mib": pages * os.sysconf("SC_PAGE_SIZE") / 2**20,
        "threads": threading.active_count(),
        "descriptors": len(opened),
        "files": sum(one.startswith("/") for one in opened),
    }


def _opened() -> Iterator[str]:
    """Yield what each descriptor leads to."""
    for one in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the one that lists them
            yield str(one.readlink())


def spec_of(instances: int, most: int, interval_s: float = 1.0) -> ClusterSpec:
    """Return the spec of a fleet whose size is only set by hand."""
    spec = cluster_spec("large")
    return attrs.evolve(
        spec,
        models=attrs.evolve(spec.models, repository="/models", serve=("echo",)),
        triton=attrs.evolve(spec.triton, restricted=()),
        runtime=Choice("found"),
        api=attrs.evolve(spec.api, rate_limit=100_000),
        replicas=attrs.evolve(spec.replicas, min=0, max=most, initial=instances),
        scaling=attrs.evolve(spec.scaling, use="fixed", interval_s=interval_s),
        drain=DrainSpec(timeout_s=20.0, quiesce_s=0.0),
    )


def main() -> None:
    """Serve until stdin ends."""
    master.prepare_interpreter()
    descriptors.raise_limit()
    begin("text", "error", "large")
    places, instances, directory, interval_s = json.loads(sys.stdin.readline())
    endpoints = tuple(Endpoint(host, http, 1, metrics) for host, http, metrics in places)
    runtime, kept = _Runtime(endpoints), _Kept()
    brought(Path(directory), spec_of(instances, len(endpoints), interval_s), API_TOKEN)
    with at_work(Path(directory), _Plugin(runtime), runtime):
        _say(int(runtime.api_url.rpartition(":")[2]))
        for line in sys.stdin:
            verb, _, number = line.strip().partition(" ")
            match verb:
                case "reach":
                    kept.reach(int(number))
                    _say(None)
                case "ages":
                    _say(sorted(kept.ages_s()))
                case "suspected":
                    _say(kept.boards[-1].current.event_totals.get("TARN-1106", 0))
                case _:
                    _say(cost())


def _say(answer: object) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
