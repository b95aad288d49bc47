"""``/api/v1/update`` and ``/api/v1/spec``: what is taken, who may, and what is refused."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from fake_master import TOKEN, FakeAuthorizer, FakeMaster

from tarn.config import dump
from tarn.config.document import text_of
from tarn.control.editions import Editions, edition_files
from tarn.control.policy import Scaling
from tarn.control.scrape import Families
from tarn.domain import BeginUpdate, HoldUpdate, Rollback, Verdict
from tarn.domain.plugin_signals import PluginSignals
from tarn.domain.signals import SignalSelection
from tarn.http.blocking_pool import DirectAuthorizer
from tarn.testing.context import cluster_spec
from tarn.testing.fakes import FakePolicy

AUTH = {"Authorization": f"Bearer {TOKEN.decode()}"}
FILES = {
    "spec.yaml": text_of(dump(cluster_spec())),
    "staged.json": json.dumps({"location": "/models"}),
}


@contextmanager
def asking(directory: Path) -> Iterator[tuple[FakeMaster, httpx.Client]]:
    (directory / "triton.secret").write_text("open-sesame")
    policy = Scaling(FakePolicy(), PluginSignals(), SignalSelection(), Families())
    editions = Editions(directory, lambda _spec: policy)
    editions.keep_to(edition_files(FILES))
    with (
        FakeMaster(editions=editions) as master,
        httpx.Client(base_url=master.url, trust_env=False, headers=AUTH) as web,
    ):
        yield master, web


def test_files_become_an_edition_that_is_ready_when_the_command_comes(tmp_path: Path) -> None:
    """So the control thread reads no file, and parses nothing."""
    given = {**FILES, "staged.json": json.dumps({"location": "/other"})}
    with asking(tmp_path) as (master, web):
        answer = web.put("/api/v1/update", json={"files": given, "changes": ["a: 1 -> 2"]})
        assert answer.status_code == 200, answer.text
        (command,) = master.commands
    assert isinstance(command, BeginUpdate)
    assert command.changes == ("a: 1 -> 2",)
    assert command.edition.files == given
    assert command.edition.spec_hash != edition_files(FILES).spec_hash


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "files"),
        ({"files": {"spec.yaml": "name: a"}}, "staged.json"),
        ({"files": {**FILES, "passwd": "x"}}, "files"),
        ({"files": {**FILES, "spec.yaml": 1}}, "text"),
        ({"files": {**FILES, "spec.yaml": "name: ["}}, "spec.yaml"),
        ({"files": {**FILES, "staged.json": "[]"}}, "staged.json"),
        ({"files": FILES, "changes": "a"}, "changes"),
        ({"paused": "yes"}, "paused"),
        ({"paused": True, "files": FILES}, "files"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, body: object, said: str) -> None:
    """And no command is given."""
    with asking(tmp_path) as (master, web):
        answer = web.put("/api/v1/update", json=body)
        assert answer.status_code == 400, answer.text
        assert said in answer.text
        assert master.commands == []


def test_a_pause_and_a_rollback_need_no_files(tmp_path: Path) -> None:
    with asking(tmp_path) as (master, web):
        assert web.put("/api/v1/update", json={"paused": True}).status_code == 200
        assert web.put("/api/v1/rollback", json={"update": 3}).status_code == 200
        assert master.commands == [HoldUpdate(held=True), Rollback(3)]


def test_the_spec_is_shown_as_it_was_sent(tmp_path: Path) -> None:
    with asking(tmp_path) as (_, web):
        answer = web.get("/api/v1/spec").json()
    assert answer == {"digest": edition_files(FILES).digest, "files": FILES}


def test_who_may_change_the_fleet_by_the_authorizer_alone_gives_no_spec_and_sees_none(
    tmp_path: Path,
) -> None:
    """A spec chooses what runs as the owner; and it may hold what is secret."""
    gate = DirectAuthorizer(FakeAuthorizer(Verdict(allowed=True, reason="yes")))
    with (
        FakeMaster(api_token=None, gate=gate) as master,
        httpx.Client(base_url=master.url, trust_env=False) as web,
    ):
        for answer in (web.put("/api/v1/update", json={"files": FILES}), web.get("/api/v1/spec")):
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, "TARN-5000")
            assert "Only the owner" in answer.json()["error"]["next_step"]
        assert master.commands == []
