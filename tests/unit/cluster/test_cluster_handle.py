import threading

import attrs
import pytest
from fake_fleet import API_TOKEN, URL, instance, status

import tarn
from tarn.cluster import Cluster, choose, connect, entries
from tarn.errors import (
    ConfigError,
    NotAuthorizedError,
    NotFoundError,
    TarnError,
    TimedOutError,
    UnreachableError,
)
from tarn.follow import Message
from tarn.interfaces import Progress

SPEC = {"name": "demo", "models": "models", "runtime": {"use": "fake"}}


@pytest.fixture
def running(fleet):
    """The same fleet, with a cluster that runs."""
    Cluster(SPEC, environment=fleet.environment).up()
    fleet.asked.clear()
    return fleet


def found(fleet):
    return connect("demo", environment=fleet.environment)


def test_passes_every_command_on(running):
    """Durations become seconds; None gives the size back to the policy."""
    cluster = found(running)
    cluster.scale(4)
    cluster.scale(None)
    cluster.adapt(min=1, max=3)
    cluster.pause("30m", reason="load test")
    cluster.resume()
    assert cluster.drain("demo-0001")["message"] == "drain is done"
    assert running.asked == [
        ("scale", 4),
        ("adapt", None, None),
        ("adapt", 1, 3),
        ("pause", 1800.0, "load test"),
        ("resume",),
        ("drain", "demo-0001"),
    ]


def test_follows_a_master_that_moved(running):
    """A restarted master listens elsewhere: the reference is read again, once."""
    cluster = found(running)
    assert cluster.status()["ready"] == 2
    running.answers = {URL: UnreachableError("gone"), "http://127.0.0.1:40002": None}
    running.master_url = "http://127.0.0.1:40002"
    running.run({})
    assert cluster.status()["ready"] == 2
    assert cluster.url == "http://127.0.0.1:40002"


def test_says_that_a_master_does_not_answer(running):
    """It exists and is silent: another thing than not existing."""
    running.answers = {URL: UnreachableError("nothing listens", where=URL)}
    with pytest.raises(UnreachableError):
        found(running).status()


def test_shows_instances_that_serve_without_a_master(running):
    """The fleet goes on; status says so, and how to take it over."""
    running.answers = {URL: UnreachableError("gone")}
    orphans = tuple((f"demo-000{n}", f"127.0.0.1:4100{n}") for n in (1, 2, 3))
    running.ref = attrs.evolve(running.ref, url=None, orphans=orphans)
    cluster = found(running)
    shown = cluster.status()
    assert shown["reason"] == "no master is running; 3 instances serve; `tarn up` takes them over"
    assert shown["state"] == "degraded"
    assert [item["http"] for item in cluster.instances()] == [http for _, http in orphans]
    assert "no master" in cluster.why()


def test_does_not_take_a_wrong_token_for_an_absence(running):
    """Not authorized is said as it is."""
    running.answers = {URL: NotAuthorizedError("anonymous", "admin")}
    with pytest.raises(NotAuthorizedError):
        found(running).status()


def test_knows_only_what_was_started_and_not_ended(running):
    """Names come from the references; an ended cluster's logs are no cluster."""
    (running.home / "clusters" / "old" / "logs").mkdir(parents=True)
    (running.home / "clusters" / "torn").mkdir()
    (running.home / "clusters" / "torn" / "ref.json").write_text('{"name": ')
    assert [entry.name for entry in entries(running.environment)] == ["demo"]
    with pytest.raises(NotFoundError):
        connect("old", environment=running.environment)


def test_chooses_the_cluster_that_is_meant(fleet, running, tmp_path):
    """The folder's tarn.yaml, else the only one, else an error that lists them."""
    around = fleet.environment
    assert choose(around) == "demo"
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "tarn.yaml").write_text("name: named\nmodels: models\n")
    assert choose(around, folder) == "named"
    second = fleet.home / "clusters" / "second"
    second.mkdir()
    (second / "ref.json").write_text("{}")
    with pytest.raises(ConfigError, match="demo, second"):
        choose(around)


def test_finds_nothing_where_there_is_nothing(fleet):
    """Exit code 3, and how to start one."""
    assert entries(fleet.environment) == ()
    with pytest.raises(NotFoundError) as caught:
        choose(fleet.environment)
    assert caught.value.exit_code == 3


def test_waits_until_the_desired_size_serves(running):
    """It tells of instances meanwhile, and of the models that a starting one loads."""
    running.statuses = [
        status("starting", (instance(1, "requested", models=[]),)),
        status("starting", (instance(1, "starting", models=[]),)),
        status("ready", (instance(1),)),
    ]
    running.lines = [
        'I1127 23:52:36.260288 2510 model_lifecycle.cc:472] "loading: a:1"',
        'I1127 23:52:36.260288 2510 model_lifecycle.cc:472] "loading: b:1"',
        "I1127 23:52:37.260288 2510 model_lifecycle.cc:839] \"successfully loaded 'a'\"",
    ]
    heard: list[Progress] = []
    found(running).wait(progress=heard.append)
    assert [(one.phase, one.message) for one in heard] == [
        ("launching", "0 of 1 instances ready"),
        ("loading", "loading model 2 of 2 (0 of 1 instances ready)"),
        ("ready", "1 of 1 instances ready"),
    ]


def test_counts_a_degraded_cluster_that_serves_as_reached(running):
    """One broken model beside good ones does not keep `up` waiting."""
    running.statuses = [status("degraded")]
    found(running).wait(timeout=0)
    with pytest.raises(TimedOutError):
        found(running).wait(timeout=0, state="ready")


def test_does_not_take_an_undecided_master_for_a_served_fleet(running):
    """Nothing of nothing is ready only where the limits allow nothing."""
    nothing = {**status("ready"), "desired": 0, "ready": 0, "instances": []}
    running.statuses = [nothing, status("ready", (instance(1),))]
    found(running).wait()
    assert running.clock.now_s() > 100.0
    running.statuses = [{**nothing, "limits": {"min": 0, "max": 5, "ceiling": None}}]
    found(running).wait(timeout=0)


def test_gives_up_waiting_with_the_reason(running):
    """The deadline is sharp, and the message says what is missing."""
    running.statuses = [status("starting", (instance(1, "starting", reason="loads"),))]
    began_s = running.clock.now_s()
    with pytest.raises(TimedOutError) as caught:
        found(running).wait(ready=1, timeout="10s")
    assert 10 <= running.clock.now_s() - began_s < 11
    assert "demo-0001 is starting" in str(caught.value)
    assert caught.value.exit_code == 4


def test_does_not_wait_for_a_failed_cluster(running):
    """Triton's own line is shown at once; exit code 1."""
    ended = [instance(5, "failed", reason="error: creating server: Internal - no backend")]
    failed = status("failed", ended=ended, reason="five instances failed quickly")
    running.statuses = [{**failed, "instances": [], "ready": 0}]
    with pytest.raises(TarnError) as caught:
        found(running).wait(timeout="5m")
    assert caught.value.exit_code == 1
    assert "no backend" in str(caught.value)
    assert running.clock.now_s() == 100.0


def test_waits_for_a_master_that_restarts(running):
    """A silent master is no failure while there is one."""
    running.answers = {URL: UnreachableError("gone")}
    with pytest.raises(TimedOutError, match="gone"):
        found(running).wait(timeout="3s")


def test_stops_waiting_for_what_is_gone(running):
    """A cluster that is gone for good is not waited for until the deadline."""
    cluster = found(running)
    running.vanish()
    with pytest.raises(NotFoundError):
        cluster.wait(timeout="5m")
    assert running.clock.now_s() < 110


def test_ends_through_the_master(running):
    """Asked once; back when nothing is found any more; a second time is no error."""
    cluster = found(running)
    running.gone_after = 5
    assert cluster.down() == "cluster 'demo' ended"
    assert running.verbs() == ["down", "end"]  # what this machine keeps of it goes too
    assert cluster.down() == "cluster 'demo' is not running"
    assert Cluster.named("never", running.environment).down() == "cluster 'never' is not running"


def test_ends_by_force_what_does_not_answer(running):
    """After ten silent seconds, and it says so."""
    running.answers = {URL: UnreachableError("gone")}
    began_s = running.clock.now_s()
    assert "by force" in found(running).down()
    assert 10 <= running.clock.now_s() - began_s < 11
    assert running.verbs() == ["end"]


def test_ends_by_force_a_master_that_hangs(running):
    """A stopped master takes the connection and never answers: that is silence too."""
    running.answers = {URL: TimedOutError("no answer within the time limit", where=URL)}
    assert "by force" in found(running).down()


def test_says_that_a_cluster_is_gone(running):
    """The reference of a fleet that died with its machine names nothing that runs."""
    running.answers = {}
    running.ref = None
    with pytest.raises(NotFoundError, match="no instance"):
        found(running).status()


def test_does_not_use_force_on_what_still_drains(running):
    """A long drain times the caller out; the cluster goes on ending."""
    running.gone_after = 10_000
    with pytest.raises(TimedOutError, match="demo-0001, demo-0002"):
        found(running).down(timeout="30s")
    assert running.verbs() == ["down"]


def test_shows_logs_and_their_tail(running):
    """The deployer knows where they lie."""
    running.lines = ["one", "two", "three"]
    cluster = found(running)
    assert list(cluster.logs("demo-0001", tail=2)) == ["two", "three"]
    followed = cluster.follow_logs("demo-0001", tail=1)
    assert next(followed) == "three"
    running.lines.append("four")
    assert next(followed) == "four"
    running.lines = ["rotated"]
    assert next(followed) == "rotated"


def test_follows_events_from_where_it_stopped(running):
    """A new master is asked to go on after the last message."""
    running.stream = [Message("1-1.2.3", "event", {"code": "TARN-1102"})]
    stop = threading.Event()
    assert [message.id for message in found(running).follow(stop)] == ["1-1.2.3"]
    assert running.asked == [("stream", "events", None)]


def test_names_an_unknown_instance(running):
    """`why` of something that was never there is not found."""
    with pytest.raises(NotFoundError):
        found(running).why("demo-0404")


def test_shows_no_secret(fleet, running):
    """Neither the object nor its surroundings print a token."""
    (fleet.directory / "api_token").write_text(API_TOKEN)
    fleet.environ["MY_API_TOKEN"] = API_TOKEN
    cluster = Cluster(SPEC, environment=fleet.environment)
    cluster.status()
    shown = f"{cluster!r} {cluster} {fleet.environment!r} {cluster.status()}"
    assert API_TOKEN not in shown
    assert repr(cluster) == f"Cluster('demo', runtime='fake', state='ready', url='{URL}')"


def test_says_that_the_kept_token_cannot_be_read(running):
    """One clear line with the path, not a refusal by the master."""
    (running.directory / "api_token").unlink()
    (running.directory / "api_token").mkdir()
    with pytest.raises(TarnError, match="api_token") as caught:
        found(running).status()
    assert "\n" not in str(caught.value)


def test_says_that_the_kept_token_is_no_text(running):
    """Damage is named by the path; the bytes are not shown."""
    (running.directory / "api_token").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TarnError, match="api_token"):
        found(running).status()


def test_is_found_under_the_short_name():
    """``tarn.Cluster`` and ``tarn.connect`` are these."""
    assert tarn.Cluster is Cluster
    assert tarn.connect is connect
