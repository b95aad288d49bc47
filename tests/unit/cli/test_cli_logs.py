"""`tarn logs`: whose lines, from when, and how they are printed."""

import json
from pathlib import Path

import click
import pytest
from fake_fleet import FakeFleet

from tarn.cli import run
from tarn.cli.logs import Painter
from tarn.cluster.read.logs import LogLine
from tarn.errors import ConfigError
from tarn.plain import since

MASTER = "2027-01-01T00:00:05.000Z WARNING main tarn.x: m"
FIRST, TABLE = 'E0101 00:00:01.000000 1 a.cc:1] "a"', "| a |"
SECOND = 'I0101 00:00:04.000000 1 a.cc:1] "b"'


@pytest.fixture
def tarn(fleet: FakeFleet, capsys):
    """Run a command line on a cluster that runs; return its exit code, stdout and stderr."""
    Path("tarn.yaml").write_text("name: demo\nmodels: models\nruntime: {use: fake}\n")

    def command(*arguments: str):
        code = run(arguments, fleet.environment)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    assert command("up", "--no-wait")[0] == 0
    fleet.lines = [MASTER]
    fleet.others = {"demo-0001": [FIRST, TABLE], "demo-0002": [SECOND]}
    return command


def test_all_logs_as_one_say_whose_each_line_is(tarn) -> None:
    """A column as wide as an id, in the order of the times."""
    assert tarn("logs", "--all") == (
        0,
        f"demo-0001 | {FIRST}\ndemo-0001 | {TABLE}\ndemo-0002 | {SECOND}\nmaster    | {MASTER}\n",
        "",
    )
    assert tarn("logs", "--all", "--tail", "1")[1] == f"master    | {MASTER}\n"


def test_some_instances(tarn) -> None:
    """One alone needs no column, however it is named; the same one twice is one."""
    assert tarn("logs", "-i", "demo-0002")[1] == f"{SECOND}\n"
    assert tarn("logs", "demo-0001", "--instance", "demo-0002")[1] == (
        f"demo-0001 | {FIRST}\ndemo-0001 | {TABLE}\ndemo-0002 | {SECOND}\n"
    )
    assert tarn("logs", "demo-0002", "-i", "demo-0002", "--tail", "0")[1] == ""
    assert tarn("logs", "demo-0002", "--all")[0] == 2


def test_since_a_moment(tarn) -> None:
    """A time in UTC, or so long ago; what is neither is told."""
    assert tarn("logs", "--all", "--since", "2027-01-01T00:00:05")[1] == f"master    | {MASTER}\n"
    assert tarn("logs", "demo-0002", "--since", "1s")[1] == ""
    assert tarn("logs", "demo-0002", "--since", "300d")[1] == f"{SECOND}\n"
    code, _, err = tarn("logs", "--since", "yesterday")
    assert code == 2
    assert "'yesterday' is not a moment" in err


def test_json_is_an_object_a_line(tarn) -> None:
    """With source, time, level, and the line as it was written."""
    lines = [json.loads(line) for line in tarn("logs", "--all", "-o", "json")[1].splitlines()]
    assert [(one["source"], one["level"], one["line"]) for one in lines] == [
        ("demo-0001", "error", FIRST),
        ("demo-0001", "error", TABLE),
        ("demo-0002", "info", SECOND),
        ("master", "warning", MASTER),
    ]
    assert lines[3]["at"] - lines[0]["at"] == 4.0
    assert json.loads(tarn("logs", "-o", "json")[1])["source"] == "master"


def test_a_cluster_that_nobody_knows_has_no_logs(tarn) -> None:
    """Exit code 3, as for every other verb."""
    assert tarn("logs", "-c", "nobody")[0] == 3


def test_a_terminal_is_shown_colours_and_obeys_no_log() -> None:
    """What a model wrote moves no cursor; a pipe gets every byte as it was."""
    evil = "\x1b]0;title\x07\x1b[2Jhello\tworld\x9b1m\r"
    line = LogLine("demo-0001", 1.0, "error", evil)
    shown = Painter(9, terminal=True).stamped(line)
    assert click.unstyle(shown) == ("demo-0001 | \\x1b]0;title\\x07\\x1b[2Jhello\tworld\\u009b1m")
    assert "\x1b[31m" in shown
    assert Painter(9, terminal=False).stamped(line) == f"demo-0001 | {evil.rstrip()}"
    first, second = (
        Painter(9, terminal=True).stamped(LogLine(f"demo-000{number}", 1.0, "", ""))
        for number in (1, 2)
    )
    assert first.partition("demo")[0] != second.partition("demo")[0]
    assert Painter(terminal=True).stamped(LogLine("master", None, "info", "x")) == "x"


def test_a_moment_is_a_duration_or_a_time() -> None:
    """Without a zone it is in UTC."""
    assert since("90s", 1000.0) == 910.0
    assert since("1970-01-02", 0.0) == 86400.0
    assert since("1970-01-01T01:00:00+01:00", 0.0) == 0.0
    for odd in ("", "x", "1970-13-01", "-5m", "5 parsecs"):
        with pytest.raises(ConfigError, match="not a moment"):
            since(odd, 0.0, "--since")
