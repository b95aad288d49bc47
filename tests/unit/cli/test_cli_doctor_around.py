"""`tarn doctor` around a spec: what is examined, how it reads, and the exit codes."""

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import attrs
import pytest
import yaml
from fake_fleet import FakeFleet, FakePlugin

import tarn
from tarn.cli import run
from tarn.cluster import ClusterEnvironment
from tarn.domain import ClusterSpec
from tarn.errors import LaunchError
from tarn.hookspecs import FileCheck, hookimpl
from tarn.interfaces import Check, CheckResult, Finding
from tarn.plugins import load

LEAK = Finding("WET-1", "roof.tiles = 3", "it leaks", "Set roof.tiles = 4")
DRIP = attrs.evolve(LEAK, code="WET-2", found="it drips", fatal=False)
RULE = Finding("TARN-3100", "house", "is no house", "Build one")
"""What the preflight of `up` finds."""


class Roof:
    """A plugin with checks, a probe and a kind of file."""

    def __init__(self, *checks: Check) -> None:
        self.checks = checks
        self.specs: list[ClusterSpec] = []
        self.probed = 0

    @hookimpl
    def tarn_doctor_checks(self, spec: ClusterSpec) -> Iterable[Check]:
        self.specs.append(spec)
        return self.checks

    @hookimpl
    def tarn_doctor_probes(self) -> Iterable[Check]:
        self.probed += 1
        return [check("rain", CheckResult("it runs off"))]

    @hookimpl
    def tarn_doctor_files(self) -> Mapping[str, FileCheck]:
        return {"plan": FileCheck(lambda name, data: [LEAK] if data else [], "a plan of a roof")}


def check(name: str, looked: CheckResult) -> Check:
    return Check(name, "Whoever is wet works badly.", lambda: looked)


@attrs.frozen
class Done:
    code: int
    stdout: str
    stderr: str

    @property
    def rows(self) -> dict[str, dict[str, object]]:
        return {row["check"]: row for row in json.loads(self.stdout)}

    @property
    def summary(self) -> str:
        return self.stderr.splitlines()[-1]


Doctor = Callable[..., Done]


@pytest.fixture
def roof() -> Roof:
    return Roof()


@pytest.fixture
def around(fleet: FakeFleet, roof: Roof) -> ClusterEnvironment:
    plugins = load([FakePlugin(fleet), roof], points=())
    return attrs.evolve(fleet.environment, plugins=lambda: plugins)


@pytest.fixture
def doctor(around: ClusterEnvironment, capsys: pytest.CaptureFixture[str]) -> Doctor:
    def ask(*arguments: str) -> Done:
        return Done(run(["doctor", *arguments], around), *capsys.readouterr())

    return ask


@pytest.fixture
def spec() -> Path:
    """A ``tarn.yaml`` in the folder of the test."""
    plain = {"name": "demo", "models": "models", "runtime": "fake"}
    Path("tarn.yaml").write_text(yaml.safe_dump(plain))
    return Path("tarn.yaml")


def test_where_all_is_well_each_thing_has_a_line(doctor, roof, spec):
    """What was looked at, and what was seen; exit code 0."""
    roof.checks = (check("roof", CheckResult("it is tight")),)
    done = doctor()
    assert done.code == 0
    lines = [line.split("  ") for line in done.stdout.splitlines()]
    seen = {parts[1 if parts[1] else 2].strip(): parts[-1].strip() for parts in lines}
    assert lines[0][0] == "STATE"
    assert seen["roof"] == "it is tight"
    assert seen["model repository"].endswith("models, used in place")
    assert seen["what else `tarn up` looks at"] == "nothing prevents a start"
    assert "TARN's directory" in seen
    assert done.summary == "7 checks: 7 ok"


def test_what_is_wrong_is_told_with_why_and_fix_the_worst_last(doctor, roof, spec):
    """A person reads the last lines first; exit code 1."""
    roof.checks = (
        check("gutter", CheckResult("", (LEAK, DRIP))),
        check("roof", CheckResult("", (DRIP,))),
        check("cellar", CheckResult("no key fits", known=False)),
    )
    done = doctor()
    assert done.code == 1
    table, *blocks = done.stdout.rstrip().split("\n\n")
    assert "unknown  cellar" in table
    assert "gutter" not in table
    assert blocks[-1].splitlines() == [
        "error: gutter",
        "  what  roof.tiles = 3: it leaks [WET-1]",
        "  why   Whoever is wet works badly.",
        "  fix   Set roof.tiles = 4",
        "  what  roof.tiles = 3: it drips [WET-2]",
        "  fix   Set roof.tiles = 4",
    ]
    assert done.summary.startswith("9 checks: 1 error, ")


def test_what_one_check_told_no_other_tells_again(doctor, roof, spec, fleet):
    """The preflight of `up` repeats what a check of a plugin said."""
    roof.checks = (check("roof", CheckResult("", (LEAK,))),)
    fleet.findings = (LEAK,)
    done = doctor("-o", "json")
    assert done.code == 1
    assert done.rows["roof"]["state"] == "error"
    last = done.rows["what else `tarn up` looks at"]
    assert (last["state"], last["seen"]) == ("ok", "nothing that other checks do not report")
    assert [len(row["findings"]) for row in done.rows.values()].count(1) == 1


def test_everything_that_up_would_say_is_said(doctor, spec, fleet):
    """The runtime's findings, and those of the repository."""
    fleet.findings = (RULE,)
    Path("tarn.yaml").write_text(yaml.safe_dump({"models": "nowhere", "runtime": "fake"}))
    done = doctor("-o", "json")
    assert done.code == 1
    assert done.rows["model repository"]["findings"][0]["code"] == "TARN-2200"
    assert done.rows["what else `tarn up` looks at"]["findings"][0]["code"] == "TARN-3100"


def test_rows_for_programs(doctor, roof, spec):
    """JSON and YAML hold the same; a row a check, in the order in which they were offered."""
    roof.checks = (check("roof", CheckResult("", (DRIP,))),)
    done, yamls = doctor("-o", "json"), doctor("-o", "yaml")
    assert yaml.safe_load(yamls.stdout) == json.loads(done.stdout)
    assert list(done.rows) == [
        "this TARN",
        "TARN's directory",
        "roof",
        "model repository",
        "what else `tarn up` looks at",
        "the master's API",
        "metrics",
    ]
    assert done.rows["roof"] == {
        "check": "roof",
        "state": "warning",
        "seen": "",
        "matters": "Whoever is wet works badly.",
        "findings": [
            {
                "code": "WET-2",
                "level": "warning",
                "where": "roof.tiles = 3",
                "found": "it drips",
                "next_step": "Set roof.tiles = 4",
            }
        ],
    }


def test_without_models_what_is_around_is_examined(doctor, roof):
    """Whoever prepares a cluster has none yet: the repository is empty, and left out."""
    done = doctor("--set", "runtime.use=fake", "-o", "json")
    assert done.code == 0
    assert "model repository" not in done.rows
    assert roof.specs[0].models.repository == ""
    assert roof.specs[0].name == "demo"


def test_a_folder_whose_name_is_no_cluster_s_is_no_hindrance(doctor, roof, monkeypatch):
    """The spec has a name all the same."""
    monkeypatch.chdir("/")
    assert doctor("--set", "runtime.use=fake").code == 0
    assert roof.specs[0].name == "unnamed"


@pytest.mark.parametrize("arguments", [[], ["--probe"], ["--probe", "--plan", "roof.plan"]])
def test_nothing_that_says_what_to_look_at_is_wrong_usage(doctor, arguments):
    """It says what could be named."""
    Path("roof.plan").write_text("")
    done = doctor(*arguments)
    assert done.code == 2
    assert "--set runtime.use=yarn" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--set", "runtime.use"], 2, "KEY.PATH=VALUE"),
        (["--set", "runtime.use=[fake"], 2, "not YAML"),
        (["--set", "runtime.use=faek"], 6, "faek"),
        (["--set", "replicas.min=-1"], 2, "replicas.min"),
        (["--set", "nonsense=1"], 2, "nonsense"),
        (["-f", "nowhere.yaml"], 2, "nowhere.yaml"),
        (["--plan", "nowhere"], 3, "nowhere"),
        (["--roof", "x"], 2, "--roof"),
        (["-c", "nobody"], 3, "nobody"),
    ],
)
def test_bad_words_are_named_and_nothing_is_examined(doctor, roof, arguments, code, said):
    """As `tarn up` would; no traceback."""
    done = doctor(*arguments)
    assert done.code == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert roof.specs == []


def test_a_broken_spec_says_all_its_errors(doctor, roof):
    """It cannot be examined around what cannot be meant."""
    Path("tarn.yaml").write_text("models: models\nruntime: fake\nreplicas: {min: no, mix: 1}\n")
    done = doctor()
    assert done.code == 2
    assert done.stderr.count("tarn: [") == 2
    assert roof.specs == []


def test_only_probe_starts_something(doctor, roof, spec):
    """Probes are not even asked for otherwise."""
    assert "rain" not in doctor("-o", "json").rows
    assert roof.probed == 0
    assert doctor("--probe", "-o", "json").rows["rain"]["state"] == "ok"
    assert roof.probed == 1


def test_with_files_alone_only_they_are_examined(doctor, roof, spec):
    """Also where a tarn.yaml stands: the file is what was asked for."""
    Path("roof.plan").write_text("tiles")
    done = doctor("--plan", "roof.plan")
    assert done.code == 1
    assert done.stdout == "roof.tiles = 3: error WET-1: it leaks. Set roof.tiles = 4\n"
    assert roof.specs == []


def test_files_and_surroundings_can_be_asked_at_once(doctor, roof, spec):
    """Each file is a check beside the others."""
    Path("roof.plan").write_text("")
    done = doctor("--plan", "roof.plan", "-f", "tarn.yaml", "-o", "json")
    assert done.code == 0
    assert next(iter(done.rows)) == "plan roof.plan"
    assert "TARN's directory" in done.rows
    assert len(roof.specs) == 1


def test_one_file_named_twice_is_looked_at_once(doctor):
    """It is no mistake of a plugin's."""
    Path("roof.plan").write_text("")
    done = doctor("--plan", "roof.plan", "--plan", "roof.plan")
    assert (done.code, done.summary) == (0, "1 check: 1 ok")


def test_a_cluster_that_runs_is_examined_by_its_name(doctor, roof, fleet, spec, monkeypatch):
    """From any folder, with the spec that it was started with; what it holds is not missed."""
    tarn.Cluster("tarn.yaml", environment=fleet.environment).up()
    fleet.findings = (RULE,)
    monkeypatch.chdir("/")
    done = doctor("-c", "demo", "-o", "json")
    assert roof.specs[-1].models.repository.endswith("models")
    assert "is running" in done.rows["what else `tarn up` looks at"]["seen"]
    assert done.rows["the master's API"]["findings"][0]["code"] == "TARN-3604"


def test_a_plugin_that_fails_while_it_offers_is_told(doctor, spec, fleet, roof):
    """Doctor comes to its end; whoever raised is named."""

    class Broken:
        @hookimpl
        def tarn_doctor_checks(self):
            raise KeyError("queue")

    class Lacking:
        @hookimpl
        def tarn_doctor_checks(self):
            yield check("cellar", CheckResult("dry"))
            raise LaunchError("house", "no stairs", next_step="Build some")

    class Odd:
        @hookimpl
        def tarn_doctor_checks(self):
            return ["a check"]

    plugins = load([FakePlugin(fleet), roof, Broken(), Lacking(), Odd()], points=())
    around = attrs.evolve(fleet.environment, plugins=lambda: plugins)
    cluster = tarn.Cluster("tarn.yaml", environment=around)
    results = {one.check.partition(" (")[0]: one for one in cluster.doctor().results}
    assert "KeyError" in results["checks of Broken"].findings[0].found
    assert results["checks of Lacking"].findings[0].next_step == "Build some"
    assert "not a Check" in results["checks of Odd"].findings[0].found


def test_two_checks_of_one_name_are_a_fault_of_plugins(doctor, roof, spec):
    """Both are named, and nothing is looked at."""
    roof.checks = (check("TARN's directory", CheckResult("")),)
    done = doctor()
    assert done.code == 1
    assert "TARN-6000" in done.stderr
    assert "plugin tarn" in done.stderr
    assert "Roof" in done.stderr


def test_a_cluster_in_a_notebook_shows_what_the_doctor_found(around, roof, spec):
    """As text what the command says, as HTML tables; nothing from outside is taken for markup."""
    roof.checks = (
        check("roof", CheckResult("", (attrs.evolve(LEAK, found="<b>it leaks</b>"),))),
        check("cellar", CheckResult("dry")),
    )
    cluster = tarn.Cluster("tarn.yaml", environment=around)
    heard = []
    found = cluster.doctor(heard.append)
    assert not found.ok
    assert repr(found).endswith("8 checks: 1 error, 7 ok")
    html = found._repr_html_()
    assert "&lt;b&gt;it leaks&lt;/b&gt;" in html
    assert "<b>it leaks" not in html
    assert "Set roof.tiles = 4" in html
    assert "Whoever is wet works badly." in html
    assert html.index("roof") < html.index("cellar")
    assert heard[-1].of == 8
    assert cluster.doctor(probe=True).results[-1].check == "rain"


def test_up_that_fails_before_anything_was_started_points_to_the_doctor(fleet, spec, capsys):
    """On the command line and in a notebook."""
    fleet.findings = (RULE,)
    assert run(["up"], fleet.environment) == 1
    assert capsys.readouterr().err.rstrip().splitlines()[-1].startswith("`tarn doctor` ")
    with pytest.raises(LaunchError) as caught:
        tarn.Cluster("tarn.yaml", environment=fleet.environment).up()
    assert "`tarn doctor`" in caught.value.__notes__[0]
