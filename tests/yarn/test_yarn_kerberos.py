"""A fleet on a Kerberized YARN: it begins with a ticket, needs none, and outlives its tokens."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from house import ids, until
from probing import probe, rows
from yarn_fleet import Fleet, steady
from yarn_stage import Hadoop, YarnHouse, sandbox

from tarn_plugins.cli.sandbox.kerberos import with_sbin

pytestmark = [pytest.mark.yarn, pytest.mark.triton]

LIFE_S = 75.0
"""Of a delegation token: long enough to bring a fleet up and to scale it on a busy machine."""
PUBLIC_CACHE = "/local/filecache/"
"""What a NodeManager fetched as itself; what it fetched as the user lies in ``usercache``."""


@pytest.fixture(scope="module")
def kerberized(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hadoop]:
    """A YARN of three nodes with a realm of its own, whose tokens live for `LIFE_S`.

    Nobody else uses it: tests that kill its daemons need not be the last.
    """
    if shutil.which("krb5kdc", path=with_sbin({})["PATH"]) is None:
        pytest.skip("needs MIT Kerberos: apt install krb5-kdc krb5-admin-server krb5-user")
    directory = tmp_path_factory.mktemp("kerberos") / "sandbox"
    with sandbox(directory, kerberos=True, token_life_s=LIFE_S) as one:
        yield one


@pytest.fixture
def kerberos_house(tmp_path: Path, kerberized: Hadoop) -> Iterator[YarnHouse]:
    kerberized.log_in()
    one = YarnHouse(tmp_path, kerberized)
    yield one
    kerberized.up()
    kerberized.log_in()
    one.clear()


def log_out(hadoop: Hadoop) -> None:
    """Do away with the only ticket of the user."""
    Path(hadoop.environ["KRB5CCNAME"].removeprefix("FILE:")).unlink()


def test_without_a_ticket_a_person_hears_of_kinit_at_once(kerberos_house, kerberized) -> None:
    """`up` hangs nowhere and leaves nothing; `status` of what nobody knows says the same."""
    spec = kerberos_house.spec("nobody")
    log_out(kerberized)
    before_s = time.monotonic()
    done = kerberos_house.tarn("up", "-f", spec, timeout_s=60)
    assert time.monotonic() - before_s < 15
    assert done.returncode != 0
    assert "TARN-3132" in done.stderr
    assert "kinit" in done.stderr
    assert not kerberos_house.applications("nobody")


def test_a_probe_is_started_by_yarn(kerberos_house, kerberized) -> None:
    """Nobody gets the token of an unmanaged attempt here; a ticket is enough."""
    seen = rows(probe(kerberos_house, "probe"))
    container = seen["node container (default partition)"]
    assert (container["known"], container["findings"]) == (True, []), container
    assert seen["node network (default partition)"]["findings"] == []
    assert seen["node master's port (default partition)"]["findings"] == []


@pytest.mark.timeout(420)
def test_a_fleet_outlives_its_tokens(kerberos_house, kerberized) -> None:
    """Instances answer and masters restart after their end; the date is told; nothing loops."""
    fleet = Fleet(kerberos_house, kerberized, "mortal")
    spec = kerberos_house.spec("mortal", replicas={"min": 1, "max": 3, "initial": 1})
    done = kerberos_house.tarn("up", "-f", spec, "--timeout", "120s", timeout_s=150)
    assert done.returncode == 0, done.stderr
    assert "delegation tokens of this submission end at 20" in done.stderr
    log_out(kerberized)
    holds_no_secret(fleet, kerberized)
    fleet.tarn("scale", "2")
    before, pids = fleet.settled(2), fleet.tritons()
    assert any("tokens end at 20" in line for line in before["warnings"])

    with steady(fleet, before):
        until(lambda: any("tokens ended at" in w for w in fleet.status()["warnings"]), LIFE_S)
        asks_in_vain(fleet, kerberized)
        kerberized.log_in()  # who looks for a master that moved needs a ticket; the fleet has none
        for _ in range(2):
            fleet.after(fleet.kill_master())
            same(before, fleet)
        kerberized.kill("rm")
        kerberized.start("rm")
        kerberized.wait_nodes(3)
        fleet.after(fleet.kill_master())
        same(before, fleet)
        assert fleet.tritons() == pids
    fleet.tarn("scale", "1")
    assert ids(fleet.settled(1)) < ids(before)
    fleet.down()
    assert not kerberos_house.processes("mortal")
    assert not kerberized.hdfs_listing(kerberos_house.staging)


def holds_no_secret(fleet: Fleet, hadoop: Hadoop) -> None:
    """Public files hold nothing to hide; an instance has no token that speaks for the fleet."""
    (master,) = fleet.masters().values()
    (instance,) = fleet.tritons()
    for name in ("run", "launch"):
        (file,) = hadoop.directory.glob(
            f"data/*/local/usercache/*/appcache/*/{master}/.tarn/{name}"
        )
        assert PUBLIC_CACHE in str(file.resolve()), "it was fetched with the user's token"
        assert fleet.api_token not in file.read_text()
    tokens = {
        container: next(hadoop.directory.glob(f"data/*/local/nmPrivate/*/{container}/*.tokens"))
        for container in (master, instance)
    }
    assert b"YARN_AM_RM_TOKEN" in tokens[master].read_bytes()
    assert fleet.api_token.encode() in tokens[master].read_bytes()
    given = tokens[instance].read_bytes()
    assert b"HDFS_DELEGATION_TOKEN" in given
    assert b"YARN_AM_RM_TOKEN" not in given
    assert b"tarn." not in given


def asks_in_vain(fleet: Fleet, hadoop: Hadoop) -> None:
    """One more waits, with the reason in words, and YARN is not asked for it."""
    held = hadoop.metrics()["containersAllocated"]
    fleet.tarn("scale", "3")
    third = until(
        lambda: [i for i in fleet.status()["instances"] if i["state"] == "requested"], 20
    )[0]
    why = until(
        lambda: "tokens ended at" in (text := fleet.tarn("why", third["id"])) and text, 20, "why"
    )
    assert "`tarn up` submits the cluster again" in why
    lost = until(
        lambda: [w for w in fleet.status()["warnings"] if "state is not saved" in w], 20, "a word"
    )
    assert "tokens ended" in lost[0]
    metrics = hadoop.metrics()
    assert metrics["containersAllocated"] == held
    assert metrics["containersPending"] == 0
    assert [i["id"] for i in fleet.status()["instances"] if i["state"] == "requested"] == [
        third["id"]
    ], "it is tried again and again"


def same(before: dict[str, object], fleet: Fleet) -> None:
    """The size is what was found alive: the wish for a third was never saved."""
    after = fleet.settled(2)
    assert {i["id"]: i["container_id"] for i in after["instances"]} == {
        i["id"]: i["container_id"] for i in before["instances"]
    }
    assert any("tokens ended at" in line for line in after["warnings"])
