"""A real Prometheus follows a master that moves, and the token of the metrics that changes."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from fake_master import TOKEN, FakeMaster
from house import until
from servers.prometheus import PrometheusServer

from tarn.cluster.monitoring import Scrape, TargetFiles, follow_targets, scrape_config
from tarn.cluster.monitoring import scrape as targets
from tarn.cluster.monitoring.scrape import keep_scrape_token
from tarn.follow import MasterApi

NEW = b"the-token-after-a-takeover"


@attrs.define
class Way:
    """A link that leads where it is told, with the token that is kept."""

    url: str
    directory: Path

    def ask(self, question: Callable[[MasterApi], Any]) -> Any:
        with MasterApi(self.url, (self.directory / "api_token").read_text()) as api:
            return question(api)


def scraped(one: PrometheusServer, url: str) -> bool:
    found = one.now('up{job="tarn", cluster="llama"} == 1')
    return [row["metric"]["instance"] for row in found] == [url.removeprefix("http://")]


def test_prometheus_follows_the_master(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To another address, with another token, and nobody loads its configuration again."""
    monkeypatch.setattr(targets, "LOOK_EVERY_S", 0.1)
    kept, stop = tmp_path / "kept", threading.Event()
    kept.mkdir()
    (kept / "api_token").write_bytes(TOKEN)
    files = TargetFiles(tmp_path, "llama", kept)
    with FakeMaster() as first, FakeMaster(api_token=NEW) as second:
        way: Any = Way(first.url, kept)
        files.write(way)
        scrape = Scrape("llama", first.url, keep_scrape_token(kept), interval_s=1)
        follower = threading.Thread(target=follow_targets, args=(files, way, stop, print))
        follower.start()
        try:
            with PrometheusServer(tmp_path / "prometheus", scrape_config(scrape, files)) as one:
                until(lambda: scraped(one, first.url), 30, "a scrape of the first master")
                # and of two Tritons
                until(lambda: len(one.ask("targets")["activeTargets"]) == 3, 30, "all targets")
                (kept / "api_token").write_bytes(NEW)
                way.url = second.url
                until(lambda: scraped(one, second.url), 30, "a scrape of the second master")
        finally:
            stop.set()
            follower.join(10)
