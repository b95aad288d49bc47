"""Fleets on a Kerberized YARN: with a ticket they outlive their tokens, with a keytab they grow."""

import json
import threading
import time
from pathlib import Path

import pytest
from house import ids, until
from probing import probe, rows
from servers.kerberos import ME, login, run
from servers.yarn import KERBEROS_LIFE_S as LIFE_S
from servers.yarn import Hadoop, YarnHouse
from yarn_fleet import Fleet, steady

from tarn.domain import Applied, Epoch
from tarn.errors import NotAuthorizedError
from tarn.follow import KerberosTickets, MasterApi
from tarn.plain.credentials import keytab_keys

pytestmark = [pytest.mark.yarn, pytest.mark.triton]

PUBLIC_CACHE = "/local/filecache/"
"""What a NodeManager fetched as itself; what it fetched as the user lies in ``usercache``."""


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


def test_why_kerberos_does_not_help_is_said_at_once(kerberos_house, kerberized, tmp_path) -> None:
    """A ticket that ended or of another realm, a keytab without the key: nothing starts."""
    keys = kerberized.directory / "data" / "kerberos"
    foreign = tmp_path / "foreign.keytab"
    told = f"addent -password -p svc@ELSEWHERE -k 1 -e aes256-cts\nx\nwkt {foreign}\nq\n"
    run(["ktutil"], kerberized.environ, told)
    for name, options, said in (
        ("lacks", login("alice@TARN.TEST", keys / "user.keytab"), ("TARN-3762", f"{ME}@TARN.TEST")),
        ("foreign", login("svc@ELSEWHERE", foreign), ("TARN-3766", "realm ELSEWHERE")),
        ("missing", login(ME, tmp_path / "none"), ("TARN-3761", "does not exist")),
    ):
        refused(kerberos_house, name, options, *said)
    conf = tmp_path / "krb5.conf"
    theirs = Path(kerberized.environ["KRB5_CONFIG"]).read_text()
    conf.write_text(theirs.replace("default_realm = TARN.TEST", "default_realm = ELSEWHERE"))
    kerberos_house.environ["KRB5_CONFIG"] = str(conf)
    refused(kerberos_house, "stranger", {}, "TARN-3764", f"no user for {ME}@TARN.TEST")
    kerberos_house.environ["KRB5_CONFIG"] = kerberized.environ["KRB5_CONFIG"]
    words = ["kinit", "-l", "1s", "-kt", str(keys / "user.keytab"), ME]
    run(words, kerberized.environ)
    threading.Event().wait(1.5)
    refused(kerberos_house, "over", {}, "TARN-3763", f"of {ME}@TARN.TEST ended at 20")


def refused(house: YarnHouse, name: str, options: dict[str, object], code: str, said: str) -> None:
    done = house.tarn("up", "-f", house.spec(name, options=options), timeout_s=60)
    assert done.returncode != 0
    assert code in done.stderr
    assert said in done.stderr, done.stderr


def test_a_probe_is_started_by_yarn(kerberos_house, kerberized) -> None:
    """Nobody gets the token of an unmanaged attempt here; a ticket is enough."""
    seen = rows(probe(kerberos_house, "probe"))
    container = seen["node container (default partition)"]
    assert (container["known"], container["findings"]) == (True, []), container
    assert seen["node network (default partition)"]["findings"] == []
    assert seen["node master's port (default partition)"]["findings"] == []


@pytest.mark.timeout(420)
def test_fleets_outlive_their_tokens(kerberos_house, kerberized, tmp_path, monkeypatch) -> None:
    """Without a keytab what runs goes on, and nothing loops; with one everything goes on."""
    lasting = begun_by_keytab(kerberos_house, kerberized)
    kerberized.log_in()
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
        kerberized.log_in()
        shows_tickets(lasting, kerberized, tmp_path, monkeypatch)
        log_out(kerberized)
        until(lambda: any("tokens ended at" in w for w in fleet.status()["warnings"]), LIFE_S)
        asks_in_vain(fleet, kerberized)
        kerberized.log_in()  # who looks for a master that moved needs a ticket; the fleet has none
        goes_on(lasting, kerberized)
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
    lasting.down()
    assert not kerberos_house.processes("mortal")
    assert not kerberized.left_in(kerberos_house.staging)


def begun_by_keytab(house: YarnHouse, hadoop: Hadoop) -> Fleet:
    """Bring a fleet up without a ticket; the key is in no file on HDFS, nor with an instance."""
    keys = hadoop.directory / "data" / "kerberos"
    log_out(hadoop)
    spec = house.spec(
        "lasting",
        options=login(ME, keys / "user.keytab"),
        replicas={"min": 1, "max": 3, "initial": 1},
        placement={"tag": "lasting", "scope": "cluster"},  # the other fleet has nodes to itself
        api={
            "spnego": {"keytab": str(keys / "spnego.keytab")},
            "trusted_proxies": [
                {"name": "lb", "address": "127.0.0.0/8", "authenticated_by": "kerberos"}
            ],
        },
    )
    done = house.tarn("up", "-f", spec, "--timeout", "120s", timeout_s=150)
    assert done.returncode == 0, done.stderr
    assert f"the master gets new ones by the keytab of {ME}@TARN.TEST" in done.stderr
    fleet = Fleet(house, hadoop, "lasting")
    assert any("TARN-3760" in line for line in fleet.status()["warnings"])
    key = (keys / "user.keytab").read_bytes()[2:]
    (master,) = fleet.masters().values()
    (instance,) = fleet.tritons()
    given = tokens_of(hadoop, master, instance)
    assert key in given[master]
    assert key not in given[instance]
    assert b"YARN_AM_RM_TOKEN" not in given[instance]
    assert b"HDFS_DELEGATION_TOKEN" in given[instance]
    hadoop.log_in()
    assert not [path for path in hadoop.hdfs_listing(house.staging) if "keytab" in path]
    (copy,) = hadoop.directory.glob(f"data/*/local/usercache/*/appcache/*/{master}/kerberos.keytab")
    assert copy.stat().st_mode & 0o077 == 0
    assert {one.principal for one in keytab_keys(copy.read_bytes())} == {f"{ME}@TARN.TEST"}
    return fleet


def shows_tickets(fleet: Fleet, hadoop: Hadoop, folder: Path, monkeypatch) -> None:
    """Its owner is let in by a ticket, a stranger is known and refused, nobody is nobody."""
    token = fleet.house.directory("lasting") / "api_token"
    token.unlink()
    assert fleet.status()["name"] == "lasting", "by the owner's ticket"
    assert not token.exists()
    keys = hadoop.directory / "data" / "kerberos"
    strangers = {**hadoop.environ, "KRB5CCNAME": f"FILE:{folder / 'alice'}"}
    assert curled(fleet.url, strangers) == 401
    run(["kinit", "-kt", str(keys / "alice.keytab"), "alice"], strangers)
    assert curled(fleet.url, strangers) == 403
    assert curled(fleet.url, hadoop.environ) == 200
    monkeypatch.setenv("KRB5_CONFIG", hadoop.environ["KRB5_CONFIG"])
    monkeypatch.setenv("KRB5CCNAME", strangers["KRB5CCNAME"])
    with MasterApi(fleet.url, None) as api, pytest.raises(NotAuthorizedError) as caught:
        api.status()
    assert caught.value.principal == "alice"
    with MasterApi(fleet.url, None, tickets=KerberosTickets(keys / "lb.keytab", "lb")) as api:
        epoch = Epoch.parse(api.status()["epoch"])
        api.acknowledge(Applied("edge", epoch, 0, time.time(), ""))
        with pytest.raises(NotAuthorizedError):
            api.scale(0)


def curled(url: str, environ: dict[str, str]) -> int:
    """Ask as any program does that knows Hadoop's web pages."""
    words = ["curl", "-s", "-o", "/dev/null", "-w", "%{json}", "--negotiate", "-u", ":"]
    said = json.loads(run([*words, f"{url}/api/v1/status"], environ))
    return int(said["response_code"])


def goes_on(fleet: Fleet, hadoop: Hadoop) -> None:
    """After the end of the first tokens it grows, remembers, and its next master does, too."""
    assert any("first delegation tokens ended" in w for w in fleet.status()["warnings"])
    fleet.tarn("scale", "2")
    grown = fleet.settled(2)
    after = fleet.after(fleet.kill_master())
    assert after["desired"] == 2, "the state was saved and read"
    assert not [w for w in after["warnings"] if "TARN-1005" in w or "TARN-1016" in w]
    assert ids(fleet.settled(2)) == ids(grown)


def tokens_of(hadoop: Hadoop, *containers: str) -> dict[str, bytes]:
    """Return container to its credentials, as its NodeManager keeps them."""
    return {
        one: next(hadoop.directory.glob(f"data/*/local/nmPrivate/*/{one}/*.tokens")).read_bytes()
        for one in containers
    }


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
    tokens = tokens_of(hadoop, master, instance)
    assert b"YARN_AM_RM_TOKEN" in tokens[master]
    assert fleet.api_token.encode() in tokens[master]
    given = tokens[instance]
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
    assert "submit the cluster again (`tarn down`, then `tarn up`)" in why
    lost = until(
        lambda: [w for w in fleet.status()["warnings"] if "state is not saved" in w], 20, "a word"
    )
    assert "tokens ended" in lost[0]
    metrics = hadoop.metrics()
    assert metrics["containersAllocated"] == held
    assert metrics["containersPending"] == 0
    assert [i["id"] for i in fleet.status()["instances"] if i["state"] == "requested"] == [
        third["id"]
    ], "TARN keeps retrying"


def same(before: dict[str, object], fleet: Fleet) -> None:
    """The size is what was found alive: the wish for a third was never saved."""
    after = fleet.settled(2)
    assert {i["id"]: i["container_id"] for i in after["instances"]} == {
        i["id"]: i["container_id"] for i in before["instances"]
    }
    assert any("tokens ended at" in line for line in after["warnings"])
