"""`tarn simulate`, and `Cluster.replay`."""

import json
from pathlib import Path

import attrs
import pytest
import yaml
from fake_fleet import FakeFleet

from tarn.cli import run
from tarn.cluster import Cluster
from tarn.errors import ConfigError
from tarn.plugins import load

LOAD = "t_s,requests_per_s\n0,100\n60,700\n180,0\n"


@pytest.fixture
def tarn(fleet: FakeFleet, capsys):
    """Run a command line with the installed plugins; return its exit code, stdout and stderr."""
    environment = attrs.evolve(fleet.environment, plugins=load)
    Path("load.csv").write_text(LOAD)

    def command(*arguments: str):
        code = run(("simulate", *arguments), environment)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return command


def test_a_table_compares_and_each_change_has_its_reason(tarn) -> None:
    """Policies in the order in which they were named; the changes of the first."""
    code, out, err = tarn("--trace", "load.csv", "--against", "hpa, java")
    assert code == 0
    lines = out.splitlines()
    assert lines[0].split()[:4] == ["POLICY", "QUEUE", "P50", "P95"]
    assert [line.split()[0] for line in lines[1:4]] == ["target", "hpa", "java"]
    assert "target, change by change:" in lines
    assert "offered_load is 70" in out
    assert "simulating: target (1 of 3)" in err


def test_an_empty_name_of_a_policy_is_an_error(tarn) -> None:
    """``--policy "$UNSET"`` must not mean the default."""
    code, _, err = tarn("--trace", "daily:1", "--policy", "")
    assert code == 2
    assert "the name is empty" in err


def test_without_its_plugin_the_verb_says_what_is_missing(fleet: FakeFleet, capsys) -> None:
    """It is in the help, so nobody shall be told that it does not exist."""
    assert run(("simulate", "--trace", "daily:1"), fleet.environment) == 2
    assert "'simulate' comes with a plugin of TARN" in capsys.readouterr().err


def test_json_and_yaml_say_the_same(tarn) -> None:
    """For programs, every number and every decision."""
    _, as_json, _ = tarn("--trace", "load.csv", "--policy", "knative", "-o", "json")
    _, as_yaml, _ = tarn("--trace", "load.csv", "--policy", "knative", "-o", "yaml")
    (one,) = json.loads(as_json)
    assert yaml.safe_load(as_yaml) == [one]
    assert one["policy"] == "knative"
    assert one["requests"] == pytest.approx(100 * 60 + 700 * 120)
    assert one["decisions"][0]["reason"] == "the first size"


def test_a_spec_gives_limits_guard_and_policy(tarn) -> None:
    """The one that would be used, with its options; an option on the command line wins."""
    spec = {
        "models": "repo",
        "replicas": {"min": 3, "max": 4},
        "scaling": {"use": "target", "options": {"target": 2}, "cooldown": "0s"},
    }
    Path("tarn.yaml").write_text(yaml.safe_dump(spec))
    _, out, _ = tarn("--trace", "load.csv", "-f", "tarn.yaml", "-o", "json")
    (one,) = json.loads(out)
    assert one["most"] == 4
    assert "target 2 a replica" in one["decisions"][1]["reason"]
    assert "limits 3 to 4" in one["decisions"][1]["held_back"]
    asked = ("--trace", "load.csv", "-f", "tarn.yaml", "--option", "target=6", "-o", "json")
    (other,) = json.loads(tarn(*asked)[1])
    assert "target 6 a replica" in other["decisions"][1]["reason"]


def test_what_is_assumed_of_the_world_can_be_set(tarn) -> None:
    """With units, as in a spec."""
    slow = ("--world", "start=100s", "--world", "slots=4", "--world", "fail_at=[30s]")
    (one,) = json.loads(tarn("--trace", "load.csv", *slow, "-o", "json")[1])
    assert one["queue_p95_s"] > 30
    assert one["lost"] > 0


def test_a_drawing_is_written_where_it_is_asked_for(tarn) -> None:
    """And said so."""
    code, _, err = tarn("--trace", "load.csv", "--plot", "load.html")
    assert code == 0
    assert "drawn in load.html" in err
    assert "<svg" in Path("load.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("--trace", "absent.csv"), 2, "absent.csv: no such file. Expected a CSV file"),
        (("--trace", "dialy:1"), 2, "a generated load: step:1, ramp:1, daily:1"),
        (("--trace", "load.csv", "--policy", "hap"), 6, "Did you mean 'hpa'?"),
        (("--trace", "load.csv", "--option", "target=-1"), 2, "scaling.options.target"),
        (("--trace", "load.csv", "--option", "aim=1"), 2, "scaling.options.aim"),
        (("--trace", "load.csv", "--world", "slots=none"), 2, "--world.slots"),
        (("--trace", "load.csv", "--world", "slot=1"), 2, "--world.slot"),
        (("--trace", "load.csv", "--min", "5", "--max", "2"), 2, "--max = 2 is below --min = 5"),
        (("--trace", "load.csv", "--plot", "load.gif"), 2, "ends in .png or .html"),
        ((), 2, "Missing option '--trace'"),
    ],
)
def test_a_slip_is_answered_with_what_would_be_right(
    tarn, arguments: tuple[str, ...], code: int, told: str
) -> None:
    """Before anything is simulated, or at least before anything is written."""
    got, out, err = tarn(*arguments)
    assert (got, out) == (code, "")
    assert told in err


def test_a_cluster_replays_a_frame(fleet: FakeFleet) -> None:
    """Nobody is asked: the spec is enough; a notebook draws what comes back."""
    around = attrs.evolve(fleet.environment, plugins=load)
    cluster = Cluster(
        None, models="repo", scaling={"use": "target"}, replicas={"max": 6}, environment=around
    )
    frame = {"t_s": [0, 60, 180], "requests_per_s": [100, 900, 0]}
    run_ = cluster.replay(frame)
    assert run_.policy == "target"
    assert run_.summary.most == 6
    assert run_._repr_html_().count("<svg") == 4
    slower = cluster.replay(frame, options={"target": 4}, start="60s")
    assert slower.ready.index(6) > run_.ready.index(6)
    assert cluster.replay("step:3", "hpa").trace == "step-3"
    with pytest.raises(ConfigError, match="start"):
        cluster.replay(frame, start="soon")
    with pytest.raises(ConfigError, match="without the columns t_s and requests_per_s"):
        cluster.replay({"load": [1]})
