"""A cluster that was started from another home, and answers that no token came to."""

from pathlib import Path

import attrs
import pytest
import yaml
from fake_fleet import API_TOKEN, URL, FakeApi, FakeFleet

from tarn.cluster import Cluster, connect
from tarn.domain import Epoch
from tarn.errors import (
    LaunchError,
    NotAuthorizedError,
    NotFoundError,
    TarnError,
    UnreachableError,
)
from tarn.interfaces import ClusterRef, Ending, RuntimeCapabilities

PROXY = "http://rm:8088/proxy/application_1_0001"
WAS = ClusterRef("demo", "fake", Epoch(1000, 1), application_id="application_1_0001")
NOBODY = NotAuthorizedError("anonymous", "view", next_step="The api token is missing")


@pytest.fixture
def elsewhere(fleet: FakeFleet) -> FakeFleet:
    """It runs, its runtime reaches beyond this machine, and nothing of it is kept here."""
    fleet.capabilities = RuntimeCapabilities(remote=True)
    fleet.ref = attrs.evolve(WAS, url=URL)
    return fleet


def test_one_of_which_nothing_is_kept_is_found_by_asking(elsewhere: FakeFleet) -> None:
    """Its deployer serves for everything else too."""
    cluster = connect("demo", environment=elsewhere.environment)
    assert cluster.status()["ready"] == 2
    cluster.scale(1)
    assert elsewhere.asked == [("scale", 1)]


def test_it_is_ended_from_where_nothing_of_it_is_kept(elsewhere: FakeFleet) -> None:
    """Whoever can look at it can end it."""
    elsewhere.gone_after = 5
    cluster = connect("demo", environment=elsewhere.environment)
    assert cluster.down() == "cluster 'demo' ended"
    assert elsewhere.verbs() == ["down", "end"]


def test_what_is_kept_without_its_spec_is_not_said_to_be_over(fleet: FakeFleet) -> None:
    """Nothing says how its runtime is asked."""
    fleet.run({})
    cluster = connect("demo", environment=fleet.environment)
    with pytest.raises(UnreachableError, match="is not on this machine"):
        cluster.down()


def test_one_that_is_being_started_is_found_by_its_spec(fleet: FakeFleet) -> None:
    """Its reference comes last."""
    Cluster({"name": "demo", "models": "models", "runtime": {"use": "fake"}},
            environment=fleet.environment).up()  # fmt: skip
    (fleet.directory / "ref.json").unlink()
    assert connect("demo", environment=fleet.environment).status()["ready"] == 2


def test_its_end_is_known_too(elsewhere: FakeFleet) -> None:
    """As long as its runtime remembers."""
    elsewhere.ref = None
    elsewhere.ending = Ending("demo", "failed", "killed by alice", 1.8e9, WAS)
    cluster = connect("demo", environment=elsewhere.environment)
    assert cluster.status()["reason"] == "killed by alice"


def test_a_runtime_of_this_machine_is_not_asked(elsewhere: FakeFleet) -> None:
    """What it runs is kept here."""
    elsewhere.capabilities = RuntimeCapabilities()
    with pytest.raises(NotFoundError):
        connect("demo", environment=elsewhere.environment)


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        ("TARN-3120", NotFoundError, "does not run"),
        ("TARN-6001", NotFoundError, "does not run"),
        (
            "TARN-3130",
            UnreachableError,
            "it is not known whether cluster 'demo' runs: fake could not be asked",
        ),
    ],
)
def test_who_does_not_answer_is_told_and_what_is_not_here_is_not(
    elsewhere: FakeFleet,
    monkeypatch: pytest.MonkeyPatch,
    code: str,
    kind: type[TarnError],
    words: str,
) -> None:
    """Without Hadoop nobody means YARN; a ResourceManager that is down is news."""

    def find(_self: FakeFleet, _name: str) -> None:
        raise LaunchError("fake", "no answer", code=code)

    monkeypatch.setattr(FakeFleet, "find", find)
    with pytest.raises(kind) as caught:
        connect("demo", environment=elsewhere.environment)
    assert words in caught.value.found


@pytest.mark.parametrize("name", ["demo", "other"])
def test_the_spec_of_this_folder_says_how_to_ask(elsewhere: FakeFleet, name: str) -> None:
    """One that cannot be read, or is another cluster's, is no hindrance."""
    Path("tarn.yaml").write_text(
        yaml.safe_dump({"name": name, "models": "models", "runtime": {"use": "fake"}})
    )
    assert connect("demo", environment=elsewhere.environment).status()["ready"] == 2
    Path("tarn.yaml").write_text("name: [")
    assert connect("demo", environment=elsewhere.environment).status()["ready"] == 2


def test_a_reference_without_its_spec_is_asked_about(elsewhere: FakeFleet) -> None:
    """A home that could not be given everything tries again."""
    elsewhere.run({})
    assert connect("demo", environment=elsewhere.environment).status()["ready"] == 2
    elsewhere.ref = None
    assert connect("demo", environment=elsewhere.environment).url is None


def test_without_its_api_token_the_way_to_it_is_told(elsewhere: FakeFleet) -> None:
    """Not how to write a header."""
    elsewhere.answers = {URL: NOBODY}
    with pytest.raises(NotAuthorizedError, match=r"not kept here.*tarn\.yaml"):
        connect("demo", environment=elsewhere.environment).status()


def test_a_wrong_token_and_a_refused_name_are_the_masters_own_words(fleet: FakeFleet) -> None:
    """Nothing is to be added."""
    Cluster({"name": "demo", "models": "models", "runtime": {"use": "fake"}},
            environment=fleet.environment).up()  # fmt: skip
    (fleet.directory / "api_token").write_text(API_TOKEN)
    for error in (NOBODY, NotAuthorizedError("alice", "manage", next_step="not yours")):
        fleet.answers = {URL: error}
        with pytest.raises(NotAuthorizedError, match=error.next_step):
            connect("demo", environment=fleet.environment).events()


def test_a_cluster_with_a_new_token_is_asked_by_it(fleet: FakeFleet) -> None:
    """A later master at the same address may have one: whoever holds a handle goes on."""
    fleet.run({"api_token": b"the-first-token"})

    class Strict(FakeApi):
        def _ask(self) -> None:
            if self.api_token != (fleet.directory / "api_token").read_text():
                raise NOBODY
            super()._ask()

    around = attrs.evolve(fleet.environment, api=lambda url, token, _: Strict(fleet, url, token))
    cluster = connect("demo", environment=around)
    assert cluster.status()["ready"] == 2
    (fleet.directory / "api_token").write_text("the-second-token")
    assert cluster.status()["ready"] == 2
    cluster.scale(1)
    assert fleet.asked == [("scale", 1)]


def test_no_token_passes_a_proxy_and_that_is_told_each_time(elsewhere: FakeFleet) -> None:
    """The direct way is tried again for each question."""
    elsewhere.run({"api_token": API_TOKEN.encode()})
    elsewhere.ref = attrs.evolve(WAS, url=URL, proxy_url=PROXY)
    closed = UnreachableError("no connection within the time limit", where=URL)
    elsewhere.answers = {URL: closed, PROXY: NOBODY}
    cluster = connect("demo", environment=elsewhere.environment)
    for _ in range(2):
        with pytest.raises(
            NotAuthorizedError, match=r"(?s)does not pass api tokens on.*token: none"
        ):
            cluster.events()
        elsewhere.clock.time_s += 3.0
    elsewhere.answers = {URL: None}
    assert cluster.events() == ()
