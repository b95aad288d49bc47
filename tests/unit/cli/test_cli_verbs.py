import json
from pathlib import Path

import attrs
import click
import pytest
import yaml
from fake_fleet import API_TOKEN, URL, FakeFleet, instance, status

from tarn import errors
from tarn.cli import run
from tarn.cli.options import overlay
from tarn.cli.show import Talk, columns
from tarn.cli.verbs import VERBS, root
from tarn.cluster import Cluster, connect
from tarn.config import ALIASES
from tarn.config.draft import copied
from tarn.domain import CODES, Epoch
from tarn.errors import (
    ConfigError,
    ConfigErrors,
    ConflictError,
    LaunchError,
    NotAuthorizedError,
    NotFoundError,
    ProviderMissingError,
    RefusedError,
    TarnError,
    TimedOutError,
    UnreachableError,
)
from tarn.follow import Message
from tarn.interfaces import ClusterRef, Progress, RuntimeCapabilities
from tarn.testing.fake_triton import FakeTriton

YAML = "name: demo\nmodels: models\nruntime: {use: fake}\n"


@pytest.fixture
def tarn(fleet: FakeFleet, capsys):
    """Run a command line; return its exit code, stdout and stderr."""
    Path("tarn.yaml").write_text(YAML)

    def command(*arguments: str):
        code = run(arguments, fleet.environment)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return command


@pytest.fixture
def running(tarn, fleet: FakeFleet):
    """A cluster that runs."""
    assert tarn("up", "--no-wait")[0] == 0
    fleet.asked.clear()
    (fleet.directory / "api_token").write_text(API_TOKEN)
    return fleet


def test_up_tells_of_each_phase_and_ends_with_what_to_paste(tarn, fleet):
    """Progress on stderr, a line for each phase; endpoint, API and curl on stdout."""
    code, out, err = tarn("up")
    assert code == 0
    assert err.splitlines() == [
        "preflight: checking the spec, the runtime and the model repository",
        "staging: preparing the model repository",
        "launching: starting the master of 'demo'",
        "ready: 2 of 2 instances ready",
    ]
    assert out.splitlines() == [
        "demo is ready: 2 of 2 ready",
        "serves  http://127.0.0.1:41001",
        "serves  http://127.0.0.1:41002",
        f"API     {URL} (api token: {fleet.directory}/api_token)",
        "try     curl -s http://127.0.0.1:41001/v2/models/echo",
        "end it  tarn down -c demo",
    ]


def test_up_names_no_token_where_there_is_none(tarn, fleet):
    """With `api: {token: none}` nothing is kept, so there is no file to name."""
    code, out, err = tarn("up", "--set", "api.token=none")
    assert code == 0, err
    assert f"API     {URL}" in out.splitlines()


def test_up_attaches_and_says_since_when(tarn, running):
    """A second up is no error."""
    code, _, err = tarn("up")
    assert code == 0
    assert "'demo' is already running since 2027-01-15T08:00:00Z" in err
    assert "submit" not in running.verbs()


def test_up_with_another_spec_prints_the_difference(tarn, running):
    """Exit code 1, the code, the paths and the way out."""
    code, out, err = tarn("up", "--set", "replicas.max=3")
    assert (code, out) == (1, "")
    assert "tarn: [TARN-2102] demo: it runs with another spec" in err
    assert "replicas.max: 10 -> 3" in err
    assert "`tarn update` with the same options brings it to this spec" in err


def test_up_takes_the_options_of_the_java_tarn(tarn, fleet):
    """Long and short names, and our own --set beside them."""
    code, out, err = tarn(
        "up", "--dry-run", "-o", "json", "--min-instances", "2", "-max", "7",
        "--set", "triton.args={log-verbose: 1}", "--set", "scaling=fixed",
    )  # fmt: skip
    assert code == 0, err
    spec = json.loads(out)["spec"]
    assert (spec["replicas"]["min"], spec["replicas"]["max"]) == (2, 7)
    assert spec["triton"]["args"] == {"log-verbose": 1}
    assert fleet.verbs() == ["plan", "check"]


def test_up_names_every_configuration_error_at_once(tarn, fleet):
    """One line each, exit code 2, nothing started."""
    code, out, err = tarn("up", "--set", "replicas.min=-1", "--set", "replicsa=3")
    assert (code, out) == (2, "")
    lines = err.splitlines()
    assert len(lines) == 2
    assert all(line.startswith("tarn: [TARN-20") for line in lines)
    assert fleet.asked == []


def test_up_of_what_fails_shows_tritons_line(tarn, fleet):
    """Exit code 1, without a traceback."""
    ended = [instance(5, "failed", reason="error: creating server: no backend")]
    fleet.statuses = [status("failed", ended=ended, reason="five failed quickly")]
    code, _, err = tarn("up")
    assert code == 1
    assert "tarn: [TARN-1112] demo:" in err
    assert "no backend" in err
    assert "Traceback" not in err


def test_status_is_a_table_for_people(tarn, running):
    """Instances with state, age, endpoint and reason; then what is amiss."""
    running.statuses = [
        status(
            "degraded",
            (
                instance(1),
                instance(2, "starting", reason="loads\nslowly", http=None),
                instance(3, suspect="silent for 4 s"),
            ),
            reason="2 of 3 ready",
            warnings=["follower lb1 never came"],
        )
    ]
    code, out, _ = tarn("status")
    assert code == 0
    assert out == (
        "demo is degraded: 2 of 3 ready\n"
        "2 of 3 ready (min 1, max 5)\n"
        f"API {URL}\n"
        "\n"
        "INSTANCE   STATE     AGE    ENDPOINT         REASON\n"
        "demo-0001  ready     1m15s  127.0.0.1:41001\n"
        "demo-0002  starting  1m15s                   loads slowly\n"
        "demo-0003  suspect   1m15s  127.0.0.1:41003  silent for 4 s\n"
        "\n"
        "! follower lb1 never came\n"
    )


def test_status_is_json_or_yaml_for_programs(tarn, running):
    """The promised fields, the same in both."""
    as_json = json.loads(tarn("status", "-c", "demo", "-o", "json")[1])
    as_yaml = yaml.safe_load(tarn("status", "-o", "yaml")[1])
    assert as_json == as_yaml
    assert {"name", "state", "epoch", "desired", "instances"} <= as_json.keys()
    keys = {"id", "state", "reason", "node", "http", "grpc", "metrics"}
    assert keys <= as_json["instances"][0].keys()


def test_status_lists_several_clusters(tarn, running):
    """Without a name and a tarn.yaml; one that does not answer does not hide the other."""
    Path("tarn.yaml").unlink()
    other = running.home / "clusters" / "other"
    other.mkdir()
    (other / "ref.json").write_text('{"url": "http://127.0.0.1:1", "runtime": "fake"}')
    (other / "spec.yaml").write_bytes((running.directory / "spec.yaml").read_bytes())
    running.ref = attrs.evolve(running.ref)
    code, out, _ = tarn("status")
    assert code == 0
    rows = out.splitlines()
    assert rows[0].split() == ["CLUSTER", "STATE", "READY", "RUNTIME", "STARTED", "REASON"]
    assert rows[1].split() == ["demo", "ready", "2/2", "fake", "2027-01-15T08:00:00Z"]
    assert rows[2].split()[:2] == ["other", "unknown"]


def test_status_of_a_fleet_without_a_master_says_so(tarn, running):
    """It serves, so the exit code is 0; the reason says how to mend it."""
    running.answers = {}
    running.ref = attrs.evolve(running.ref, url=None, orphans=(("demo-0001", "127.0.0.1:41001"),))
    code, out, _ = tarn("status")
    assert code == 0
    assert "no master is running; 1 instance serves; `tarn up` takes it over" in out


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        (["scale", "4"], ("scale", 4)),
        (["scale", "--auto"], ("adapt", None, None)),
        (["adapt", "--min", "2", "--max", "8"], ("adapt", 2, 8)),
        (["pause", "30m", "--reason", "load test"], ("pause", 1800.0, "load test")),
        (["resume"], ("resume",)),
        (["drain", "demo-0001"], ("drain", "demo-0001")),
        (["drain", "demo-0001", "--now"], ("drain", "demo-0001", "now")),
    ],
)
def test_a_command_prints_what_the_master_says(tarn, running, arguments, asked):
    """On stdout, and the whole answer with ``-o json``."""
    code, out, err = tarn(*arguments)
    assert (code, out, err) == (0, f"{asked[0]} is done\n", "")
    assert running.asked == [asked]
    answer = json.loads(tarn(*arguments, "-o", "json", "-c", "demo")[1])
    assert answer == {"spec_revision": 2, "message": f"{asked[0]} is done"}


@pytest.mark.parametrize(
    "arguments",
    [["scale"], ["scale", "3", "--auto"], ["scale", "-1"], ["pause"], ["drain"], ["fly"],
     ["wait", "--for", "ready=many"], ["wait", "--for", "state=happy"], ["wait", "--for", "ready"],
     ["wait", "--for", "ready=2", "--timeout", "soon"], ["pause", "30"],
     ["up", "--set", "a"], ["up", "-f", "nowhere.yaml"], ["logs", "--tail", "x"]],
)  # fmt: skip
def test_a_wrong_command_line_exits_with_2(tarn, running, arguments):
    """Said on stderr, without a traceback, and nothing is asked."""
    code, out, err = tarn(*arguments)
    assert (code, out) == (2, "")
    assert err
    assert "Traceback" not in err
    assert running.asked == []


def test_wait_for_a_number_or_a_state(tarn, running):
    """Silent on stdout; exit code 4 when it does not come to that."""
    assert tarn("wait", "--for", "ready=2")[:2] == (0, "")
    assert tarn("wait", "--for", "state=ready")[:2] == (0, "")
    assert tarn("wait")[:2] == (0, "")
    code, _, err = tarn("wait", "--for", "ready=3", "--timeout", "2s")
    assert code == 4
    assert "tarn: [TARN-4002] demo: 3 ready instances not reached in 2 s" in err
    assert "Did you mean 'ready'?" in tarn("wait", "--for", "state=redy")[2]
    running.statuses = [status("failed", (instance(1, "failed"),), reason="no backend")]
    code, _, err = tarn("wait", "--for", "ready=3")
    assert code == 1
    assert "[TARN-1112] demo: the cluster is failed: no backend" in err


def test_up_and_wait_say_degraded_by_exit_code_7(tarn, running):
    """It serves, and less than it should; a state that was asked for is not judged."""
    running.statuses = [status("degraded", (instance(1),), reason="model b is unavailable")]
    for goal in ((), ("--for", "ready=1")):
        code, out, err = tarn("wait", *goal)
        assert (code, out) == (7, "")
        assert "demo is degraded: model b is unavailable" in err
    assert tarn("wait", "--for", "state=degraded")[0] == 0
    code, out, _ = tarn("up")
    assert (code, out.partition("\n")[0]) == (7, "demo is degraded: 1 of 1 ready")
    assert tarn("up", "--no-wait")[0] == 0


def test_events_are_a_table_or_a_stream(tarn, running):
    """Equal things have a count; a whole that is sent again is not printed again."""
    event = {"code": "TARN-1102", "subject": "demo-0001", "message": "serves", "count": 3}
    event |= {"first": 1.8e9, "last": 1.8e9, "severity": "info"}
    running.events = [event]
    later = {**event, "last": 1.8e9 + 5, "count": 1, "subject": "demo-0002"}
    running.stream = [
        Message("a", "event", event),
        Message("b", "reset", {}),
        Message("c", "event", event),
        Message("d", "event", later),
    ]
    assert tarn("events")[1].splitlines()[1].split() == [
        "2027-01-15T08:00:00Z", "info", "TARN-1102", "demo-0001", "3", "serves",
    ]  # fmt: skip
    assert tarn("events", "-f")[1].splitlines() == [
        "2027-01-15T08:00:00Z TARN-1102 demo-0001: serves (x3)",
        "2027-01-15T08:00:05Z TARN-1102 demo-0002: serves",
    ]


def test_logs_of_an_instance_or_the_master(tarn, running):
    """Without an instance it is the master's."""
    running.lines = ["one\n", "two\n"]
    assert tarn("logs", "demo-0001", "--tail", "1")[1] == "two\n"
    assert tarn("logs")[1] == "one\ntwo\n"
    assert running.asked == [("logs", "demo-0001", 1), ("logs", "", None)]


def test_why_says_sentences(tarn, running):
    """Of the cluster, or of one instance."""
    assert tarn("why")[1] == "demo: 2 of 2 ready; nothing is wrong\n"
    assert tarn("why", "demo-0001")[1].startswith("demo-0001 is ready")
    assert tarn("why", "demo-0404")[0] == 3


def test_why_is_a_list_of_causes_for_programs(tarn, running):
    """Subject, what was found, next step and code: nobody need read a sentence."""
    running.statuses = [status(instances=(instance(1, suspect="silent for 4 s"),))]
    assert json.loads(tarn("why", "-o", "json")[1]) == [
        {
            "subject": "demo-0001",
            "found": "demo-0001 is kept out of the view: silent for 4 s",
            "next_step": "`tarn logs demo-0001` shows Triton's log.",
            "code": "TARN-1106",
        }
    ]
    assert "Did you mean 'demo-0001'?" in tarn("why", "demo-001")[2]


def test_watch_ends_at_its_goal_or_its_time(tarn, running):
    """Lines where there is no terminal; exit code 4 when it does not come to that."""
    code, out, _ = tarn("watch", "--until", "ready=2")
    assert (code, out) == (
        0,
        "demo is ready: 2 of 2 ready; demo-0001 ready, demo-0002 ready\n",
    )
    assert tarn("watch", "--timeout", "0s")[0] == 0
    assert tarn("watch", "--until", "ready=3", "--timeout", "0s")[0] == 4
    assert tarn("watch", "--until", "ready")[0] == 2


def test_verify_exits_with_1_when_something_was_lost(tarn, running):
    """The report on stdout, for people or programs; progress on stderr."""
    with FakeTriton("echo") as triton:
        running.statuses = [status(instances=(instance(1, http=triton.endpoint.http),))]
        given = ("verify", "--rps", "100", "--for", "50ms")
        code, out, err = tarn(*given)
        assert (code, err) == (0, "")
        assert out.startswith("demo: 5 sent in 0.05 s to echo, 5 answered, 0 lost\n")
        assert json.loads(tarn(*given, "-o", "json")[1])["total"]["answered"] == 5
        Path("body.json").write_text("no JSON")
        code, out, _ = tarn(*given, "--model", "echo", "--input", "body.json")
        assert code == 1
        assert "5 lost on demo-0001 (echo): 500: failed to parse" in out
        assert tarn(*given, "--model", "ecko")[0] == 3
        assert tarn(*given, "--input", "nowhere.json")[0] == 2
        assert tarn("verify", "--rps", "0")[0] == 2
        assert tarn("verify", "--for", "30")[0] == 2


def test_down_twice_is_no_error(tarn, running):
    """The second time it says that nothing runs."""
    assert tarn("down")[:2] == (0, "cluster 'demo' ended\n")
    assert tarn("down")[:2] == (0, "cluster 'demo' is not running\n")
    assert tarn("status")[0] == 3
    Path("tarn.yaml").unlink()
    assert tarn("down")[:2] == (0, "no cluster is running\n")


def test_down_says_that_it_used_force(tarn, running):
    """A master that is silent for ten seconds."""
    running.answers = {}
    code, out, _ = tarn("down")
    assert code == 0
    assert "by force" in out


def test_plugins_lists_what_is_offered(tarn):
    """Kind, name, the plugin, and what it is."""
    rows = [row.split() for row in tarn("plugins")[1].splitlines()]
    assert rows[0][:3] == ["KIND", "NAME", "PLUGIN"]
    assert ["runtime", "fake"] in [row[:2] for row in rows]


def test_plugins_shows_one_of_them_and_knows_no_others(tarn):
    """By its name or its plugin's; a slip gets a hint."""
    (row,) = json.loads(tarn("plugins", "fake", "-o", "json")[1])[:1]
    assert (row["kind"], row["options"]) == ("runtime", [])
    code, _, err = tarn("plugins", "fixd")
    assert code == 3
    assert "Did you mean 'fixed'?" in err


def test_config_explain_names_the_origin_of_each_value(tarn, fleet):
    """File and line, option, environment, or default."""
    fleet.environ["MAX_CONTAINERS"] = "6"
    code, out, _ = tarn(
        "config", "explain", "--set", "replicas.min=2", "--set", "scaling=fixed", "-o", "json"
    )
    assert code == 0
    origins = {row["key"]: (row["value"], row["origin"]) for row in json.loads(out)}
    assert origins["replicas.min"][0] == 2
    assert "argument" in origins["replicas.min"][1]
    assert origins["replicas.max"][0] == 6
    assert "MAX_CONTAINERS" in origins["replicas.max"][1]
    assert "tarn.yaml" in origins["models.repository"][1]
    assert origins["drain.quiesce"][1] == "default"


def test_config_schema_is_json_schema(tarn):
    """For an editor."""
    schema = json.loads(tarn("config", "schema")[1])
    assert schema["type"] == "object"
    assert "replicas" in schema["properties"]


@pytest.mark.parametrize("code", sorted(CODES))
def test_help_explains_every_code(tarn, code):
    """Each code of the table, in any case."""
    exit_code, out, _ = tarn("help", code.lower())
    assert exit_code == 0
    assert CODES[code].meaning in out
    assert CODES[code].next_step in out


def test_help_explains_verbs_and_knows_no_others(tarn):
    """`tarn help up` is `tarn up --help`."""
    assert tarn("help", "up")[1] == tarn("up", "--help")[1]
    assert tarn("help", "TARN-9999")[0] == 3
    assert tarn("help", "fly")[0] == 3
    assert tarn("help", "2102")[1] == tarn("help", "TARN-2102")[1]
    assert "Did you mean 'TARN-2114'?" in tarn("help", "TARN-21144")[2]
    assert "Did you mean 'status'?" in tarn("help", "statsu")[2]


@pytest.mark.parametrize("verb", VERBS)
def test_the_table_says_what_each_verb_is(verb):
    """The one-liner is written twice, so the verb's own help must exist and be loaded lazily."""
    command = root.get_command(click.Context(root), verb)
    assert command is not None
    assert command.name == verb
    assert command.help


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (TarnError("found"), 1),
        (ConfigError("found"), 2),
        (ConfigErrors([ConfigError("found")]), 2),
        (RefusedError("6 is above max = 5"), 2),
        (ConflictError("the revision is 4", spec_revision=4), 1),
        (LaunchError("fake", "found"), 1),
        (NotFoundError("found"), 3),
        (TimedOutError("found"), 4),
        (NotAuthorizedError("alice", "scale"), 5),
        (ProviderMissingError("yarn", "not installed"), 6),
    ],
)
def test_each_kind_of_error_has_its_exit_code(tarn, running, error, code):
    """Printed as one line with its code; never a traceback."""
    running.refusal = error
    got, out, err = tarn("scale", "6")
    assert (got, out) == (code, "")
    assert err == f"tarn: [{error.code}] {error}\n"


def test_every_error_class_has_an_exit_code_of_the_table():
    """0 is success, 130 an interrupt: no error may claim them."""
    classes = [getattr(errors, name) for name in errors.__all__]
    assert {cls.exit_code for cls in classes} == {1, 2, 3, 4, 5, 6}


def test_an_unreachable_master_exits_with_3(tarn, running):
    """What was tried is named."""
    running.answers = {URL: UnreachableError("nothing listens", where=URL)}
    code, _, err = tarn("scale", "2")
    assert code == 3
    assert URL in err


def test_an_interrupt_exits_with_130_and_ends_nothing(tarn, fleet):
    """Whoever interrupts `up` is told that the cluster goes on."""
    fleet.statuses = [status("starting", (instance(1, "starting"),))]

    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    around = attrs.evolve(fleet.environment, rest=interrupt)
    assert run(["up"], around) == 130
    assert set(fleet.verbs()) == {"check", "submit", "logs"}


def test_an_interrupt_before_anything_was_submitted_says_so(fleet, capsys, monkeypatch):
    """There is nothing that could go on."""
    Path("tarn.yaml").write_text("name: demo\nmodels: models\nruntime: {use: fake}\n")

    def interrupt(_self, _spec):
        raise KeyboardInterrupt

    monkeypatch.setattr(type(fleet), "check", interrupt)
    assert run(["up"], fleet.environment) == 130
    said = capsys.readouterr().err
    assert "nothing was started" in said
    assert "goes on" not in said


def test_down_ends_what_runs_elsewhere_and_knows_what_it_does_not_know(tarn, fleet, monkeypatch):
    """Found as `status` finds it; a runtime that cannot be asked is no end."""
    Path("tarn.yaml").unlink(missing_ok=True)
    fleet.capabilities = RuntimeCapabilities(remote=True)
    fleet.ref = ClusterRef("demo", "fake", Epoch(1000, 1), url=URL)
    fleet.gone_after = 5
    assert tarn("down", "-c", "demo")[:2] == (0, "cluster 'demo' ended\n")
    assert tarn("down", "-c", "demo")[:2] == (0, "cluster 'demo' is not running\n")

    def find(_self, _name):
        raise LaunchError("fake", "no answer", code="TARN-3130")

    monkeypatch.setattr(type(fleet), "find", find)
    code, out, err = tarn("down", "-c", "demo")
    assert (code, out) == (3, "")
    assert "fake could not be asked" in err


def test_a_bug_keeps_its_traceback(fleet, running):
    """Only what TARN says on purpose is one line."""
    running.refusal = ZeroDivisionError("a bug")
    with pytest.raises(ZeroDivisionError):
        run(["scale", "2"], fleet.environment)


def test_no_output_ever_holds_the_token(tarn, running):
    """Every verb, every form; the token of the cluster stands in its file alone."""
    running.events = []
    shown = ""
    for form in ("table", "json", "yaml"):
        for verb in (["status"], ["events"], ["resume"], ["plugins"], ["config", "explain"]):
            shown += "".join(tarn(*verb, "-o", form)[1:])
    shown += "".join(tarn("why")[1:]) + "".join(tarn("watch", "--timeout", "0s")[1:])
    running.answers = {URL: UnreachableError("gone")}
    shown += "".join(tarn("status")[1:]) + "".join(tarn("up")[1:]) + "".join(tarn("down")[1:])
    assert API_TOKEN not in shown


def test_an_unreadable_token_file_is_one_clear_line(tarn):
    """Exit code 2, the path, nothing started."""
    code, out, err = tarn("up", "--set", "api.token=file:/nowhere/token")
    assert (code, out) == (2, "")
    assert err.splitlines()[-1].startswith("tarn: [TARN-2000] api.token: the file /nowhere/token")


def test_talk_rewrites_one_line_on_a_terminal(capsys):
    """On a terminal each message replaces the last; elsewhere a phase is one line."""
    steps = [Progress("launching", "0 of 2"), Progress("launching", "1 of 2"),
             Progress("launching", "1 of 2"), Progress("ready", "2 of 2")]  # fmt: skip
    for terminal in (True, False):
        talk = Talk(terminal=terminal)
        for step in steps:
            talk(step)
        talk.done()
    written = capsys.readouterr().err
    start = "\r\x1b[K"
    assert written == (
        f"{start}launching: 0 of 2{start}launching: 1 of 2{start}ready: 2 of 2{start}"
        "launching: 0 of 2\nready: 2 of 2\n"
    )


def test_columns_leave_out_what_is_empty_everywhere():
    """A table as narrow as what it says."""
    assert columns(("A", "B", "C"), [("x", None, 1), ("yy", "", 2)]) == "A   C\nx   1\nyy  2"


@pytest.mark.parametrize(
    "words",
    [
        ["scale", "2", "-c", ""], ["pause", "5m", "-c", ""], ["status", "-c", " "],
        ["down", "--cluster="], ["up", "-c", ""], ["up", "-f", ""], ["drain", ""], ["logs", ""],
        ["logs", "-i", ""], ["why", ""], ["verify", "--model", ""], ["plugins", ""], ["lint", ""],
    ],
    ids=" ".join,
)  # fmt: skip
def test_an_empty_name_is_an_error_and_nothing_is_asked(words, fleet, capsys):
    """``-c "$UNSET"`` must not act on the only cluster that runs."""
    assert run(words, fleet.environment) == 2
    assert "the name is empty" in capsys.readouterr().err


def test_an_empty_name_is_an_error_in_python_too(fleet):
    """Whoever connects, and whoever drains."""
    for name in ("", " "):
        with pytest.raises(ConfigError, match="the name is empty"):
            connect(name, environment=fleet.environment)
        with pytest.raises(ConfigError, match="the name is empty"):
            Cluster.named("a", fleet.environment).drain(name)


def test_assignments_nest_and_later_ones_win():
    """``--set`` has the shape of the YAML."""
    assert copied(overlay(["a.b=1", "a.c=[x, y]", "a.b=two", "d=null"])) == {
        "a": {"b": "two", "c": ["x", "y"]},
        "d": None,
    }
    with pytest.raises(ConfigError, match="no value"):
        overlay(["a.b"])
    with pytest.raises(ConfigError, match="not YAML"):
        overlay(["a=[secret"])


@pytest.mark.parametrize("verb", [["up"], ["secrets", "put"], ["config", "explain"], ["doctor"]])
def test_help_lists_our_options_and_says_where_those_of_the_java_tarn_are(tarn, verb):
    """They are understood; some sixty of them would hide ours."""
    code, out, _ = tarn(*verb, "--help")
    assert code == 0
    assert "--tls-keystore" not in out
    assert "`tarn compat --options`" in " ".join(out.split())
    listed = tarn("compat", "--options")[1]
    for alias in ALIASES:
        assert (f"--{alias.long}" if alias.long else alias.env) in listed
    assert "replicas.min" in listed


def test_an_option_that_help_does_not_list_is_still_understood(tarn):
    """As the Java TARN wrote it."""
    code, out, _ = tarn("config", "explain", "--drain-timeout-ms", "5000", "-o", "json")
    assert code == 0
    row = {"key": "drain.timeout", "value": "5s", "origin": "argument --drain-timeout-ms"}
    assert row in json.loads(out)


@pytest.mark.parametrize(("present", "named"), [("tarn.yml", "tarn.yml"), ("a b.md", "FILE"),
                                                ("tarn.yaml.txt", "tarn.yaml.txt")])  # fmt: skip
def test_up_without_a_file_says_so_and_names_the_one_that_is_meant(fleet, capsys, present, named):
    """Not "models is missing": nobody wrote anything yet."""
    Path(present).write_text("models: m\n")
    for words in (["up", "--set", "runtime=fake"], ["up", "-f", "tarn.yaml"]):
        assert run(words, fleet.environment) == 2
        said = capsys.readouterr().err
        assert "tarn.yaml" in said
        assert f"-f {named}\n" in said
        assert said.count("tarn: [") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["stauts"], "there is no verb 'stauts'. Did you mean 'status'?"),
        (["ps"], "Did you mean 'status'?"),
        (["stop"], "Did you mean 'down'?"),
        (["delete"], "Did you mean 'down'?"),
        (["xyzzy"], "`tarn help` lists the verbs"),
        (["config", "explian"], "explian"),
        (["scale", "two"], "'two' is not a whole number"),
        (["scale", "--", "-3"], "-3 is too small; it must be at least 0"),
        (["adapt", "--min", "1.5"], "'1.5' is not a whole number"),
        (["scale", "\u0663"], "is not a whole number"),
        (["verify", "--rps", "fast"], "'fast' is not a number, such as 20"),
        (["verify", "--rps", "nan"], "'nan' is not a number"),
        (["support-bundle"], "'support-bundle' comes with a plugin of TARN, which was left out"),
        (["up", "-c", "Bad_Name"], "must be 1 to 40 small letters (a to z), digits and '-'"),
    ],
    ids=lambda given: given if isinstance(given, str) else " ".join(given),
)
def test_a_slip_is_told_in_plain_words(tarn, words, said):
    """A verb of another program, a number in letters, a name that no pattern should explain."""
    code, _, err = tarn(*words)
    assert code == 2
    assert said in err
