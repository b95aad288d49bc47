"""A master whose authorizer is Ranger's engine, from `tarn up` to SIGTERM."""

import json
import os
import signal
from pathlib import Path

import httpx
from house import House, until
from servers.ranger import EVERYBODY, PolicyServer, item, options, policy

from tarn.http.pages import STALE

POLICIES = [
    policy(1, ["echo"], [item(["infer"], ["alice"])]),
    policy(2, ["*"], [item(["list"], groups=[EVERYBODY])]),
]
ASKED = 40


def test_a_master_asks_ranger_and_has_all_its_answers_audited(house: House) -> None:
    """Policies decide; a fleet grows next to the JVM; a change is followed; SIGTERM loses nothing.

    What it says of Ranger Admin's absence is in /health, and decisions go on from what it has.
    """
    with PolicyServer(POLICIES) as stage:
        chosen = {"use": "ranger", "options": options(house.root / "site", stage.url)}
        spec = house.spec("guarded", authorizer=chosen, replicas={"min": 1, "max": 2, "initial": 1})
        up = house.tarn("up", "-f", spec, "--wait")
        assert up.returncode == 0, up.stderr
        token = (house.directory("guarded") / "api_token").read_text().strip()
        with httpx.Client(
            base_url=house.ref("guarded")["url"], headers={"X-TARN-Token": token}, trust_env=False
        ) as api:
            until(lambda: api.get("/health").status_code == 200, 30, "the policies")
            assert allowed(api, "alice")
            assert not allowed(api, "bob")
            assert not allowed(api, "alice", "metadata", "another")
            assert allowed(api, "bob", "list", "another")
            assert house.tarn("scale", "2", "-c", "guarded").returncode == 0
            until(lambda: len(house.tritons("guarded")) == 2, 30, "the second instance")
            stage.stop()
            until(lambda: "cannot be reached" in why(api, "alice"), 10, "being stale")
            assert allowed(api, "alice")
            health = api.get("/health")
            assert health.status_code == 200
            assert STALE in health.text
            stage.start()
            stage.change(POLICIES[1:])
            until(lambda: not allowed(api, "alice"), 10, "the change")
            answers = [allowed(api, user, "list") for user in ("alice", "bob") * (ASKED // 2)]
            (master,) = masters(house)
            os.kill(master, signal.SIGTERM)
        assert all(answers)
        until(lambda: not Path(f"/proc/{master}").exists(), 10, "the end of the master")
        assert audited(house) == ASKED


def allowed(api: httpx.Client, user: str, action: str = "infer", model: str = "echo") -> bool:
    answer = api.get("/authorize", params={"model": model, "action": action, "user": user})
    assert answer.status_code == 200, answer.text
    return answer.text.strip() == "true"


def why(api: httpx.Client, user: str) -> str:
    asked = {"model": "echo", "action": "infer", "user": user}
    answer = api.get("/authorize", params=asked, headers={"Accept": "application/json"})
    return answer.json()["reason"]


def masters(house: House) -> list[int]:
    return [pid for pid, argv in house.processes("guarded").items() if "tarn.master" in argv]


def audited(house: House) -> int:
    """Count the audits of what was asked last: those of before may be written a moment later."""
    log = house.directory("guarded") / "logs" / "ranger-audit.log"
    told = [json.loads(line) for line in log.read_text().splitlines()]
    asked = [(one["access"], one["resource"]) for one in told if one["reqUser"] in {"alice", "bob"}]
    return asked.count(("list", "echo"))


def test_what_cannot_work_is_refused_before_anything_starts(house: House) -> None:
    """Contract 38: also where Ranger is asked for by the environment, as the Java TARN was."""
    spec = house.spec("hollow", authorizer={"use": "ranger", "options": {"conf_dir": "nowhere"}})
    up = house.tarn("up", "-f", spec, RANGER_SERVICE="triton_prod")
    assert up.returncode == 1
    assert f"'{house.root}/nowhere' is not a directory of this machine" in up.stderr
    assert "no ranger-plugins-common-*.jar is in" in up.stderr
    assert not house.processes("hollow")
    loose = house.tarn("up", "-f", spec, RANGER_SERVICE="triton_prod", RANGER_STRICT="false")
    assert loose.returncode == 2
    assert "would open every model" in loose.stderr
    foreseen = house.tarn("up", "-f", spec, "--dry-run", RANGER_SERVICE="triton_prod")
    assert "TARN-3400" in foreseen.stdout + foreseen.stderr
