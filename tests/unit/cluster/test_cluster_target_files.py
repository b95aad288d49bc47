"""The files by which a Prometheus follows a master that moves."""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from fake_master import TOKEN, FakeMaster

from tarn.cluster.monitoring import Scrape, TargetFiles, follow_targets, scrape_config
from tarn.cluster.monitoring import scrape as targets
from tarn.cluster.monitoring.scrape import keep_scrape_token
from tarn.errors import UnreachableError
from tarn.follow import MasterApi
from tarn.plain.credentials import scrape_token


@attrs.define
class Way:
    """A link that leads where it is told."""

    leads: str | None
    """The test changes it at any moment."""
    url: str = ""
    """Where the last answer came from, as a link has it."""
    asked: threading.Event = attrs.field(factory=threading.Event)
    failed: threading.Event = attrs.field(factory=threading.Event)

    def ask(self, question: Callable[[MasterApi], Any]) -> Any:
        leads = self.leads
        if leads is None:
            self.failed.set()
            raise UnreachableError("nobody listens there")
        with MasterApi(leads, TOKEN.decode()) as api:
            answer = question(api)
        self.url = leads
        self.asked.set()
        return answer


def addresses(path: Path) -> list[str]:
    return [target for group in json.loads(path.read_text()) for target in group["targets"]]


def test_they_name_the_master_and_its_tritons(tmp_path: Path) -> None:
    """And are written only where they differ, for Prometheus looks at each change."""
    files = TargetFiles(tmp_path, "llama")
    with FakeMaster() as master:
        way: Any = Way(master.url)
        assert files.write(way)
        assert not files.write(way)
    assert addresses(files.master) == [master.url.removeprefix("http://")]
    (group,) = json.loads(files.master.read_text())
    assert group["labels"] == {"job": "tarn", "cluster": "llama"}
    assert len(addresses(files.triton)) == 2
    first = json.loads(files.triton.read_text())[0]
    assert first["labels"]["__meta_tarn_cluster"] == "llama"
    assert TOKEN.decode() not in files.master.read_text() + files.triton.read_text()
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json", ".json"]


def test_they_follow_a_master_that_moves_and_stay_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What serves is scraped on while no master answers; each change is a line, once."""
    monkeypatch.setattr(targets, "LOOK_EVERY_S", 0.01)
    files, said, stop = TargetFiles(tmp_path, "llama"), list[str](), threading.Event()
    with FakeMaster() as first, FakeMaster() as second:
        way: Any = Way(first.url)
        files.write(way)
        before = files.triton.read_text()
        thread = threading.Thread(target=follow_targets, args=(files, way, stop, said.append))
        thread.start()
        try:
            way.leads = None
            assert way.failed.wait(10)
            assert addresses(files.master) == [first.url.removeprefix("http://")]
            way.asked.clear()
            way.leads = second.url
            assert way.asked.wait(10)
        finally:
            stop.set()
            thread.join(10)
    assert addresses(files.master) == [second.url.removeprefix("http://")]
    assert files.triton.read_text() == before
    assert said == [
        "the targets are kept: nobody listens there",
        f"llama is scraped at {second.url}",
    ]


def test_the_configuration_names_them(tmp_path: Path) -> None:
    """Nothing in it is an address that can move."""
    files = TargetFiles(tmp_path, "llama")
    master, triton = scrape_config(Scrape("llama", "http://nm1:40001"), files)["scrape_configs"]
    assert master["file_sd_configs"] == [{"files": [str(files.master)]}]
    assert triton["file_sd_configs"] == [{"files": [str(files.triton)]}]
    assert "nm1" not in json.dumps([master, triton])


def test_the_token_of_the_metrics_is_kept_for_the_owner_and_follows(tmp_path: Path) -> None:
    """None where no token is asked for; another one once the api token is."""
    assert keep_scrape_token(tmp_path) is None
    for token in (TOKEN, b"a-new-one-after-a-takeover"):
        (tmp_path / "api_token").write_bytes(token + b"\n")
        kept = keep_scrape_token(tmp_path)
        assert kept == tmp_path / "scrape_token"
        assert kept.read_bytes() == scrape_token(token)
        assert kept.stat().st_mode & 0o777 == 0o600
