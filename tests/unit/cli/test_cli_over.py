"""The command line on a cluster that is over: `status`, `why`, `logs`, `wait`, `up`."""

import json
from pathlib import Path

import pytest
from fake_fleet import URL, FakeFleet

from tarn.cli import run
from tarn.domain import Epoch
from tarn.interfaces import ClusterRef, Ending

YAML = "name: demo\nmodels: models\nruntime: {use: fake}\n"


@pytest.fixture
def tarn(fleet: FakeFleet, capsys):
    """Run a command line on a cluster that ran and was killed; return code and stdout."""
    Path("tarn.yaml").write_text(YAML)

    def command(*arguments: str):
        code = run(arguments, fleet.environment)
        return code, capsys.readouterr().out

    assert command("up", "--no-wait")[0] == 0
    fleet.answers, fleet.ref = {}, None
    was = ClusterRef("demo", "fake", Epoch(1000, 1))
    fleet.ending = Ending("demo", "failed", "killed by alice", 1.8e9, was)
    return command


def test_status_is_no_failure(tarn):
    """It could be answered."""
    code, out = tarn("status", "-c", "demo")
    assert code == 0
    assert out.splitlines()[0] == "demo is failed: killed by alice"
    code, out = tarn("status", "-c", "demo", "-o", "json")
    plain = json.loads(out)
    assert (plain["state"], plain["instances"], plain["code"]) == ("failed", [], "TARN-4004")


def test_why_names_the_next_step(tarn):
    """In one line."""
    code, out = tarn("why", "-c", "demo")
    assert code == 0
    assert "killed by alice. `tarn up` starts it again" in out


def test_logs_are_shown(tarn, fleet):
    """Those that the runtime kept."""
    fleet.lines = ["one", "two"]
    assert tarn("logs", "-c", "demo", "demo-0001") == (0, "one\ntwo\n")


def test_waiting_for_its_state_is_over_at_once(tarn):
    """Any other goal fails with the reason."""
    assert tarn("wait", "-c", "demo", "--for", "state=failed")[0] == 0
    assert tarn("wait", "-c", "demo", "--for", "ready=1")[0] == 1


def test_up_starts_it_anew(tarn, fleet):
    """Nothing of the old one stands in the way."""
    fleet.answers = {URL: None}
    assert tarn("up", "--no-wait")[0] == 0
    assert "submit" in fleet.verbs()
