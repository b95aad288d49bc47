"""A support bundle of a cluster in memory: what is in it, what is not and why."""

import io
import json
import os
import stat
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fake_fleet import API_TOKEN, URL, FakeFleet

from tarn.cluster import Cluster
from tarn.cluster.inspection import Inspection
from tarn.errors import NotFoundError, RefusedError, TarnError, TimedOutError
from tarn_plugins.cli.support_bundle.archive import write
from tarn_plugins.cli.support_bundle.making import Bundle, BundleOptions, make
from tarn_plugins.cli.support_bundle.parts import Offer, gathered, shape, tail

PASSWORD = "wonderland-of-alice"
SPEC = {
    "name": "demo",
    "models": "models",
    "runtime": {"use": "fake"},
    "triton": {"env": {"DB_PASSWORD": PASSWORD, "PLAIN": "as it is"}},
}


@pytest.fixture
def cluster(fleet: FakeFleet) -> Cluster:
    """A cluster that runs, with logs that tell too much."""
    one = Cluster(SPEC, environment=fleet.environment).up()
    (fleet.directory / "api_token").write_text(API_TOKEN)
    logs = fleet.directory / "logs" / "demo-0001"
    logs.mkdir(parents=True)
    (logs / "triton.stderr").write_text(f"password is {PASSWORD}\n")
    (logs.parent / "master.log").write_text(f"/home/jabberwock said {API_TOKEN}\n")
    return one


def made(cluster: Cluster, **wanted: object) -> Bundle:
    subject = Inspection.of(cluster, cluster._environment, lambda _progress: None)
    return make(subject, BundleOptions(**wanted))


def test_it_holds_what_is_known_and_no_secret(cluster: Cluster) -> None:
    """What the master says, what is kept here, logs, machine, doctor; the manifest lists it."""
    bundle = made(cluster)
    whole = "".join(bundle.files.values())
    assert API_TOKEN not in whole
    assert PASSWORD not in whole
    assert "jabberwock" not in whole
    assert bundle.redacted["api token"] == 1
    assert "***setting***" in bundle.files["logs/demo-0001/triton.stderr"]
    assert json.loads(bundle.files["cluster/status.json"])["name"] == "demo"
    assert json.loads(bundle.files["config/spec.json"])["triton"]["env"]["PLAIN"] == "as it is"
    assert "tarn_asked" in bundle.files["cluster/metrics.txt"]
    told = json.loads(bundle.files["manifest.json"])
    paths = {row["path"] for row in told["parts"]}
    assert paths == set(bundle.files) - {"README.txt", "manifest.json"}
    assert {row["path"] for row in told["left_out"]} >= {"kept/api_token", "kept/spec.yaml"}
    assert told["searched_for"]["secrets"]["api token"] == 1
    assert told["searched_for"]["secrets"]["token of the metrics"] == 1


def test_what_would_still_tell_is_given_to_nobody(fleet: FakeFleet) -> None:
    """A secret that looks as the mark of another one comes back with it; no file is made."""
    spec = {**SPEC, "triton": {"env": {"A_PASSWORD": PASSWORD, "B_PASSWORD": "***setting***"}}}
    one = Cluster(spec, environment=fleet.environment).up()
    (fleet.directory / "logs").mkdir()
    (fleet.directory / "logs" / "master.log").write_text(PASSWORD)
    with pytest.raises(TarnError, match="would still contain: setting") as caught:
        made(one, without=("machine", "doctor"))
    assert caught.value.code == "TARN-3843"


def test_each_line_of_a_long_secret_is_one(fleet: FakeFleet) -> None:
    """Programs write them one by one, each behind a time."""
    secret = "first of the lines\nsecond of the lines\nend"
    spec = {**SPEC, "triton": {"env": {"SERVICE_KEY": secret}}}
    one = Cluster(spec, environment=fleet.environment).up()
    (fleet.directory / "logs").mkdir()
    said = "".join(f"12:00 {line}\n" for line in secret.splitlines())
    (fleet.directory / "logs" / "master.log").write_text(said)
    text = made(one, without=("machine", "doctor")).files["logs/master.log"]
    assert text == "12:00 ***setting***\n12:00 ***setting***\n12:00 end\n"


def test_names_stay_where_they_are_wished(cluster: Cluster) -> None:
    """Secrets still go."""
    text = made(cluster, with_names=True).files["logs/master.log"]
    assert text == "/home/jabberwock said ***api-token***\n"


def test_stand_ins_can_be_told_to_whoever_made_it(cluster: Cluster) -> None:
    """They are no part of the bundle itself."""
    bundle = made(cluster)
    stand_in = bundle.stand_ins["jabberwock"]
    assert bundle.files["logs/master.log"] == f"/home/{stand_in} said ***api-token***\n"


def test_a_folder_that_is_not_wanted_is_named_as_missing(cluster: Cluster) -> None:
    """So that nobody looks for it."""
    bundle = made(cluster, without=("logs", "doctor", "machine"))
    assert not any(name.startswith(("logs/", "doctor/", "machine/")) for name in bundle.files)
    assert "it was left out on request" in bundle.files["README.txt"]


def test_a_master_that_hangs_is_asked_once(cluster: Cluster, fleet: FakeFleet) -> None:
    """Each question would wait for seconds, and all have one answer."""
    fleet.answers[URL] = TimedOutError("no answer within the time limit", where=URL)
    bundle = made(cluster, without=("machine", "doctor"))
    missing = {part.path: part.left_out for part in bundle.parts if part.left_out}
    assert "no answer within the time limit" in missing["cluster/status.json"]
    assert missing["cluster/metrics.txt"].startswith("the master did not say")
    assert "logs/master.log" in bundle.files


def test_without_any_cluster_it_tells_of_this_machine(fleet: FakeFleet) -> None:
    """Where nothing could be started yet, that is what helps."""
    bundle = make(Inspection(fleet.environment), BundleOptions())
    assert {"machine/platform.json", "machine/versions.json"} <= set(bundle.files)
    assert bundle.folder.startswith("tarn-no-cluster-")
    assert json.loads(bundle.files["machine/versions.json"])["tarn"]


def test_a_part_that_breaks_costs_nothing_else() -> None:
    """A bundle is wanted most where something is broken."""

    def broken() -> Callable[[], object]:
        raise KeyError("x")

    def refused() -> Callable[[], object]:
        raise TimedOutError("no answer")

    (part,) = gathered(Offer("a/b", "what", broken))
    assert part.left_out == "gathering it raised KeyError: 'x'"
    (part,) = gathered(Offer("a/b", "what", refused))
    assert part.left_out == "[TARN-4002] no answer"


def test_the_shape_of_a_state_has_no_content() -> None:
    """Keys of a record are kept; keys that are data are counted."""
    plain = {"a": 1, "of": {"host-1:80": [1, 2], "b c": []}, "n": None}
    assert shape(plain) == {"a": "int", "of": {"2 keys": ["2 items", "int"]}, "n": "null"}


def test_the_end_of_a_log_begins_with_a_line(tmp_path: Path) -> None:
    """Half a line may begin with half a secret."""
    path = tmp_path / "log"
    path.write_text("one\ntwo\nthree\n")
    assert tail(path, 8) == ("three\n", "the last 6 of 14 bytes")
    assert tail(path, 14) == ("one\ntwo\nthree\n", "")


def test_the_file_is_for_its_owner_only_and_replaces_none(tmp_path: Path) -> None:
    """No name of a user is in its headers; a failure leaves nothing."""
    path = tmp_path / "b.tar.gz"
    before = os.umask(0)
    try:
        assert write(path, "f", {"a/b.txt": "text"}, 1.8e9) == path.stat().st_size
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with tarfile.open(path) as tar:
        (member,) = tar.getmembers()
        assert (member.name, member.uname, member.uid, member.mode) == ("f/a/b.txt", "", 0, 0o600)
        held = tar.extractfile(member)
        assert isinstance(held, io.BufferedIOBase)
        assert held.read() == b"text"
    with pytest.raises(RefusedError, match="the file already exists"):
        write(path, "f", {}, 1.8e9)
    with pytest.raises(TarnError, match="cannot be written"):
        write(tmp_path / "nowhere" / "b.tar.gz", "f", {}, 1.8e9)
    assert [one.name for one in tmp_path.iterdir()] == ["b.tar.gz"]


def test_a_notebook_gets_the_path(cluster: Cluster, tmp_path: Path) -> None:
    """The same bundle as the command line's."""
    path = cluster.support_bundle(tmp_path / "mine.tar.gz")
    with tarfile.open(path) as tar:
        assert any(name.endswith("/manifest.json") for name in tar.getnames())


def test_a_cluster_elsewhere_gives_its_logs_through_its_runtime(fleet: FakeFleet) -> None:
    """As many of the last lines as fit; of one that is over, of whom the runtime knows."""

    class Elsewhere(Inspection):
        def logs(self, instance: str, tail: int | None) -> Iterator[str]:
            assert tail is not None
            if instance == "demo-0009":
                raise NotFoundError("there is no log of it")
            yield from (f"{instance or 'master'} says {number}" for number in range(3000))

        def logged(self) -> tuple[str, ...]:
            return "demo-0001", "demo-0009"

    one = Cluster(SPEC, environment=fleet.environment)
    subject = Elsewhere.of(one, fleet.environment, lambda _progress: None)
    bundle = make(subject, BundleOptions(log_mib=0.01, without=("machine", "doctor")))
    assert bundle.files["logs/master.log"].endswith("master says 2999\n")
    assert len(bundle.files["logs/demo-0001.log"]) <= 0.01 * 2**20
    parts = {part.path: part for part in bundle.parts}
    assert parts["logs/demo-0001.log"].cut.endswith("lines before it")
    assert parts["logs/demo-0009.log"].left_out == "[TARN-4000] there is no log of it"
