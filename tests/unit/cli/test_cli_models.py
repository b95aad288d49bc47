"""`tarn models`: load, unload, and who has what."""

import json
from pathlib import Path
from typing import Any

import pytest
from fake_fleet import API_TOKEN, FakeFleet

from tarn.cli import run

YAML = "name: demo\nmodels: models\nruntime: {use: fake}\n"
ROW = {"call": 1, "kind": "load", "model": "second", "has": 2, "of": 2, "not_yet": []}
LATE = {"id": "demo-0002", "state": "ready", "in_view": True, "why": "it is carrying out this call"}
BAD = {"id": "demo-0001", "state": "ready", "in_view": True, "why": "400 no weights"}


def control(**row: Any) -> dict[str, Any]:
    return {"calls": [{**ROW, "refuses": [], **row}], "over": []}


@pytest.fixture
def tarn(fleet: FakeFleet, capsys: pytest.CaptureFixture[str]):  # type: ignore[no-untyped-def]
    """Run a command line against a cluster that runs; return exit code, stdout and stderr."""
    Path("tarn.yaml").write_text(YAML)
    assert run(("up", "--no-wait"), fleet.environment) == 0
    (fleet.directory / "api_token").write_text(API_TOKEN)
    fleet.asked.clear()
    capsys.readouterr()

    def command(*arguments: str) -> tuple[int, str, str]:
        code = run(("models", *arguments), fleet.environment)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return command


def test_load_and_unload_say_how_many_have_it(tarn, fleet: FakeFleet) -> None:  # type: ignore[no-untyped-def]
    """On stdout, and the whole row with ``-o json``."""
    fleet.control = control()
    Path("c.json").write_text("{}")
    code, out, err = tarn("load", "second", "--config", "c.json")
    assert (code, out, err) == (0, "load of second (call 1): 2 of 2 instances have done it\n", "")
    assert fleet.asked[-1] == ("load", {"model": "second", "parameters": {"config": "{}"}})
    fleet.control = {
        "calls": [],
        "over": [
            {"call": 1, "kind": "unload", "model": "second", "refuses": [], "overtaken_by": None}
        ],
    }
    assert tarn("unload", "second", "--dependents")[:2] == (0, "unload of second (call 1): done\n")
    parameters = {"unload_dependents": True}
    assert fleet.asked[-1] == ("unload", {"model": "second", "parameters": parameters})
    assert json.loads(tarn("unload", "second", "-o", "json")[1])["kind"] == "unload"


def test_who_refuses_is_exit_code_2_and_who_is_late_4(tarn, fleet: FakeFleet) -> None:  # type: ignore[no-untyped-def]
    """Each is named, and why; without waiting neither is an error."""
    fleet.control = control(has=1, refuses=[BAD])
    code, out, err = tarn("load", "second")
    assert (code, out) == (2, "")
    assert "demo-0001: 400 no weights" in err
    fleet.control = control(has=1, not_yet=[LATE])
    code, out, err = tarn("load", "second", "--timeout", "3s")
    assert (code, out) == (4, "")
    assert "demo-0002: it is carrying out this call" in err
    code, out, _ = tarn("load", "second", "--no-wait")
    assert code == 0
    assert "demo-0002 has not done it yet: it is carrying out this call" in out


def test_a_configuration_of_a_mebibyte_is_refused_with_what_to_do(tarn, fleet: FakeFleet) -> None:  # type: ignore[no-untyped-def]
    """Before it is sent."""
    Path("c.json").write_text(json.dumps({"parameters": "x" * (1 << 20)}))
    code, out, err = tarn("load", "second", "--config", "c.json")
    assert (code, out) == (2, "")
    assert "TARN-1165" in err
    assert "into the model repository" in err
    assert fleet.asked == []


def test_what_became_of_a_call_meanwhile_is_said(tarn, fleet: FakeFleet) -> None:  # type: ignore[no-untyped-def]
    """Another took its place, nobody could do it, or a new master does not know it."""
    fleet.control = {"calls": [], "over": [{**ROW, "overtaken_by": 2, "refuses": []}]}
    del fleet.control["over"][0]["of"]
    out = tarn("load", "second", "--no-wait")[1]
    assert out == "load of second (call 1): call 2 replaced it\n"
    fleet.control["over"][0] |= {"overtaken_by": None, "refuses": [BAD]}
    out = tarn("load", "second", "--no-wait")[1]
    assert "no instance could do it\ndemo-0001 refuses it: 400 no weights" in out
    fleet.control = {"calls": [], "over": []}
    assert "another master has taken over since" in tarn("load", "second", "--no-wait")[1]


def test_wanted_shows_who_has_what(tarn, fleet: FakeFleet) -> None:  # type: ignore[no-untyped-def]
    """A row for each call; a sentence where nothing was asked for."""
    assert tarn("wanted")[1].startswith("no control call is in force")
    fleet.control = control(has=1, refuses=[BAD])
    _, out, _ = tarn("wanted")
    head, row = out.splitlines()
    assert head.split() == ["CALL", "KIND", "MODEL", "HAVE", "IT", "OTHERS"]
    assert row.split()[:6] == ["1", "load", "second", "1", "of", "2"]
    assert "demo-0001 refuses it: 400 no weights" in row
    assert json.loads(tarn("wanted", "-o", "json")[1]) == fleet.control


def test_a_configuration_that_cannot_be_read_is_said(tarn, fleet: FakeFleet) -> None:  # type: ignore[no-untyped-def]
    """Nothing is asked then."""
    Path("bad.json").write_bytes(b"\xff")
    assert "bad.json: is not UTF-8 text" in tarn("load", "second", "--config", "bad.json")[2]
    for text in ("name: second", "[]", "{" * 100_000):
        Path("bad.json").write_text(text)
        code, _, err = tarn("load", "second", "--config", "bad.json")
        assert (code, "bad.json: is not a JSON object" in err) == (2, True)
    code, _, err = tarn("load", "second", "--config", "nowhere.json")
    assert (code, "nowhere.json: cannot be read" in err) == (2, True)
    assert fleet.asked == []
