import json
from pathlib import Path

import attrs
import pytest
import yaml
from fake_fleet import FakeFleet, instance, repository, status

from tarn.cluster import Cluster
from tarn.cluster.start import launch
from tarn.domain.spec import ClusterSpec, DiscoverySpec, ModelsSpec
from tarn.errors import ConfigError, LaunchError, RefusedError, TarnError
from tarn.interfaces import Finding

SPEC = {"models": "models", "runtime": {"use": "fake"}}


def cluster(fleet: FakeFleet, **overrides):
    return Cluster({"name": "demo", **SPEC}, environment=fleet.environment, **overrides)


def test_checks_then_stages_then_submits(fleet):
    """The deployer gets the whole spec, where the models lie, and a fresh api token."""
    heard = []
    up = cluster(fleet, replicas={"min": 2}).up(heard.append)
    assert up.started_here
    assert fleet.verbs() == ["check", "submit"]
    assert [progress.phase for progress in heard] == ["preflight", "staging", "launching"]
    _, spec, staged, files = fleet.asked[1]
    assert spec.replicas.min == 2
    assert json.loads(files["staged.json"])["location"] == staged.location
    assert yaml.safe_load(files["spec.yaml"])["name"] == "demo"
    assert len(files["api_token"]) >= 43


def test_says_that_metrics_are_switched_off(fleet):
    """It is a note: all else works, with less known."""
    heard = []
    cluster(fleet, triton={"args": {"allow-metrics": False}}).up(heard.append)
    assert any(
        p.note and p.message.startswith("triton.args.allow-metrics: switches Triton's metrics off")
        for p in heard
    )


def test_says_what_a_master_waits_for_before_it_answers():
    """Half a minute without a word looks like a fault; agents are not waited for."""
    agents = DiscoverySpec("haproxy", {"followers": ["lb1"]}, required=True)
    nodes = DiscoverySpec("zookeeper", {"ensemble": "zk1:2181"}, required=True)
    spec = ClusterSpec("demo", ModelsSpec("/m"))
    begins = "starting the master of 'demo'"
    for discoveries in ((), (agents,), (attrs.evolve(nodes, required=False),)):
        assert launch.starting(attrs.evolve(spec, discovery=discoveries)) == begins
    said = launch.starting(attrs.evolve(spec, discovery=(agents, nodes)))
    assert said == f"{begins}; it waits up to 30 s for what is required: zookeeper"


def test_leaves_no_token_where_none_is_asked_for(fleet):
    """``token: none`` must be asked for, and then there is no file."""
    cluster(fleet, api={"token": "none"}).up()
    assert "api_token" not in fleet.asked[1][3]


def test_attaches_to_a_cluster_with_an_equal_spec(fleet):
    """A second up starts nothing, and leaving its context ends nothing."""
    cluster(fleet).up()
    with cluster(fleet) as second:
        assert not second.started_here
        assert second.started_at == 1.8e9
    assert fleet.verbs().count("submit") == 1
    assert "down" not in fleet.verbs()


def test_shows_the_difference_to_another_spec(fleet):
    """Exit code 1, each changed path, and the way out."""
    cluster(fleet).up()
    with pytest.raises(TarnError) as caught:
        cluster(fleet, replicas={"max": 4}).up()
    assert caught.value.code == "TARN-2102"
    assert caught.value.exit_code == 1
    assert "replicas.max: 10 -> 4" in str(caught.value)
    assert caught.value.next_step.startswith("`tarn update` with the same options brings it")
    assert fleet.verbs().count("submit") == 1


@pytest.mark.parametrize("overrides", [{}, {"replicas": {"max": 4}}])
def test_a_start_that_failed_and_never_served_is_replaced(fleet, overrides):
    """The file was corrected: nothing is lost, and nothing else need be said."""
    cluster(fleet).up()
    fleet.statuses = [status("failed", (instance(1, "failed"),), reason="no backend")]
    fleet.events = [{"code": "TARN-1105"}]
    fleet.gone_after = 0
    heard = []

    def hear(progress):
        heard.append(progress.message)
        fleet.gone_after = 1 if "and was ended" in progress.message else fleet.gone_after

    again = cluster(fleet, **overrides).up(hear)
    assert again.started_here
    assert fleet.verbs().count("submit") == 2
    assert "the last start failed before it served, and was ended" in heard


@pytest.mark.parametrize(
    ("state", "code", "events"),
    [
        ("failed", "TARN-1102", 1),
        ("starting", "TARN-1105", 1),
        ("ready", "TARN-1102", 1),
        ("failed", "TARN-1105", 100),  # older ones are forgotten
    ],
)
def test_one_that_served_or_may_serve_is_never_replaced_by_up(fleet, state, code, events):
    """It holds traffic, may in a moment, or did as far as anybody knows."""
    cluster(fleet).up()
    fleet.statuses = [status(state)]
    fleet.events = [{"code": code}] * events
    with pytest.raises(TarnError, match="it runs with another spec"):
        cluster(fleet, replicas={"max": 4}).up()
    assert not cluster(fleet).up().started_here
    assert "down" not in fleet.verbs()


def test_masks_secrets_in_the_difference(fleet):
    """A password that changed is named, not shown."""
    first = cluster(fleet, triton={"env": {"HF_TOKEN": "hunter1"}})
    first.up()
    with pytest.raises(TarnError) as caught:
        cluster(fleet, triton={"env": {"HF_TOKEN": "hunter2"}}).up()
    assert "hunter" not in str(caught.value)


def test_attaches_when_another_up_was_faster(fleet):
    """Of two at once, one wins and the other attaches."""
    spec = cluster(fleet)
    files = {}

    def other() -> None:
        fleet.faster = None
        cluster(fleet).up()
        files.update(fleet.asked[-1][3])

    fleet.faster = other
    spec.up()
    assert not spec.started_here
    assert files


def test_keeps_a_refusal_that_names_no_running_cluster(fleet):
    """A deployer that refuses for another reason is not swallowed."""
    fleet.faster = lambda: None
    with pytest.raises(RefusedError):
        cluster(fleet).up()


def test_takes_over_what_serves_without_a_master(fleet):
    """Instances without a master: submit adopts them, with the token their followers know."""
    cluster(fleet).up()
    token = (fleet.directory / "api_token").read_bytes()
    fleet.ref = attrs.evolve(fleet.ref, url=None, orphans=(("demo-0001", "127.0.0.1:41001"),))
    again = cluster(fleet).up()
    assert again.started_here
    assert fleet.asked[-1][3]["api_token"] == token


@pytest.mark.parametrize("make", ["missing", "empty", "file", "one level off"])
def test_refuses_a_repository_that_cannot_be_meant(fleet, tmp_path, make):
    """Exit code 2 with a code, and nothing was started or written."""
    odd = tmp_path / "odd"
    match make:
        case "empty":
            odd.mkdir()
        case "file":
            odd.write_text("")
        case "one level off":
            repository(odd / "deeper")
    with pytest.raises(ConfigError) as caught:
        cluster(fleet, models={"repository": str(odd)}).up()
    assert caught.value.exit_code == 2
    assert caught.value.code.startswith("TARN-22")
    assert str(odd) in str(caught.value)
    assert "submit" not in fleet.verbs()
    assert not fleet.directory.exists()


def test_shows_every_fatal_finding_at_once(fleet):
    """One look is enough to mend all; a note does not stop the start."""
    fleet.findings = (
        Finding("TARN-3101", "triton.binary", "no tritonserver", "install it"),
        Finding("TARN-3103", "triton.http_port", "8000 is taken", "choose another"),
        Finding("TARN-1014", "keeper", "odd", "", fatal=False),
    )
    heard = []
    with pytest.raises(LaunchError) as caught:
        cluster(fleet).up(heard.append)
    assert "no tritonserver" in str(caught.value)
    assert "8000 is taken" in str(caught.value)
    assert caught.value.exit_code == 1
    assert any("odd" in progress.message for progress in heard)
    assert "submit" not in fleet.verbs()


def test_says_in_one_line_that_its_home_cannot_be_written(fleet, tmp_path):
    """A home directory that is read-only, or no directory at all."""
    fleet.home = tmp_path / "blocked"
    fleet.home.write_text("")
    with pytest.raises(LaunchError) as caught:
        cluster(fleet).up()
    assert "\n" not in str(caught.value)
    assert "TARN_HOME" in caught.value.next_step


def test_ends_what_it_started_at_the_end_of_its_context(fleet):
    """``with`` is the one way in which an object ends a cluster by itself."""
    with cluster(fleet) as mine:
        assert mine.started_here
        fleet.gone_after = 2
    assert "down" in fleet.verbs()
    assert fleet.ref is None


def test_leaves_everything_running_when_it_is_detached(fleet):
    """A detached object ends nothing, even at the end of its context."""
    with cluster(fleet) as mine:
        mine.detach()
    assert "down" not in fleet.verbs()


def test_reads_a_file_and_lets_keywords_win(fleet):
    """Keywords have the shape of the YAML."""
    Path("tarn.yaml").write_text("models: models\nruntime: {use: fake}\nreplicas: {min: 3}\n")
    both = Cluster(environment=fleet.environment, replicas={"max": 4})
    assert (both.name, both.spec.replicas.min, both.spec.replicas.max) == ("demo", 3, 4)


def test_a_plan_says_when_up_would_only_attach(fleet):
    """What runs holds its own ports and memory, so nothing is held against it."""
    one = cluster(fleet)
    assert one.plan()["running"] is False
    one.up()
    fleet.asked.clear()
    assert one.plan()["running"] is True
    assert fleet.verbs() == ["plan"]
