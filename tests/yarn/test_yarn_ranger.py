"""Ranger's engine in the JVM of a master on YARN: neither disturbs the other."""

import json
import os
import signal
from pathlib import Path

import httpx
import pytest
from house import until
from servers.ranger import PolicyServer, item, options, policy
from yarn_fleet import Fleet

pytestmark = [pytest.mark.yarn, pytest.mark.triton, pytest.mark.timeout(400)]
POLICIES = [policy(1, ["echo"], [item(["infer"], ["alice"])])]
ASKED = 200


def test_ranger_decides_beside_yarn_in_one_jvm(yarn_house, hadoop) -> None:
    """It decides while containers come; its audit is whole after SIGTERM; the next master too."""
    with PolicyServer(POLICIES) as stage:
        chosen = {"use": "ranger", "options": options(yarn_house.root / "site", stage.url)}
        replicas = {"min": 1, "max": 2, "initial": 1}
        fleet = Fleet(yarn_house, hadoop, "guarded")
        fleet.up(yarn_house.spec("guarded", authorizer=chosen, replicas=replicas))
        fleet.settled(1)
        until(lambda: allowed(fleet, "alice"), 30, "the policies")
        fleet.tarn("scale", "2")
        answers = [allowed(fleet, user) for user in ("alice", "bob") * (ASKED // 2)]
        assert answers == [True, False] * (ASKED // 2)
        fleet.settled(2)
        master = fleet.master()
        log = audit_log(master)
        os.kill(master, signal.SIGTERM)
        until(lambda: not Path(f"/proc/{master}").exists(), 10, "the end of the master")
        told = [json.loads(line) for line in log.read_text().splitlines()]
        inferred = [one for one in told if one["access"] == "infer"]
        assert len(inferred) >= ASKED
        assert sum(one["reqUser"] == "bob" for one in inferred) == ASKED // 2
        assert all(one["result"] == (one["reqUser"] == "alice") for one in inferred)
        fleet.settled(2, within_s=180)
        until(lambda: allowed(fleet, "alice"), 30, "the policies of the next master")
        assert not allowed(fleet, "bob")


def allowed(fleet: Fleet, user: str) -> bool:
    """Ask the master; one that is being replaced allows nobody."""
    asked = {"model": "echo", "action": "infer", "user": user}
    headers = {"X-TARN-Token": fleet.api_token}
    try:
        answer = httpx.get(f"{fleet.url}/authorize", params=asked, headers=headers, trust_env=False)
    except httpx.TransportError:
        return False
    return answer.status_code == 200 and answer.text.strip() == "true"


def audit_log(master: int) -> Path:
    """Return the file among what YARN collects of this master's container."""
    environ = Path(f"/proc/{master}/environ").read_text().split("\0")
    (logs,) = (one.partition("=")[2] for one in environ if one.startswith("LOG_DIRS="))
    return Path(logs.split(",")[0]) / "ranger-audit.log"
