"""06: the Java TARN could not leave zero: its load is 0 where no instance has a queue."""

import pytest
from client_stage import asks
from compat.fleets import house
from contract.fake_binary import fake_models, fake_triton
from house import House
from unit.tarn_plugins.scaling.views import view

import tarn.client
from tarn.domain import Unknown
from tarn_plugins.scaling import target, threshold

__all__ = ["house"]


@pytest.mark.parametrize("policy", ["fixed", "threshold", "target"])
def test_a_request_at_target_zero_is_held_and_answered(house: House, policy: str) -> None:
    """Target 0 and one request: target 1, and the answer; no second instance."""
    spec = house.spec(
        "w",
        models={"repository": fake_models(house.root).repository},
        triton={"binary": fake_triton(house.root).binary},
        replicas={"min": 0, "max": 4, "initial": 0},
        scaling={"use": policy},
    )
    done = house.tarn("up", "-f", spec)
    assert done.returncode == 0, done.stderr
    assert house.status("w")["desired"] == 0
    token = (house.directory("w") / "api_token").read_text().strip()
    with tarn.client.http(str(house.ref("w")["url"]), api_token=token) as client:
        assert asks(client, 6) == 6
    status = house.status("w")
    assert (status["desired"], status["ready"], status["spec_revision"]) == (1, 1, 1)


POLICIES = [
    threshold.ThresholdPolicy(threshold.ThresholdSettings()),
    target.TargetPolicy(target.TargetSettings()),
]


@pytest.mark.parametrize("policy", POLICIES, ids=["threshold", "target"])
def test_a_policy_itself_leaves_zero_for_one_request(policy: threshold.ThresholdPolicy) -> None:
    """Where nothing serves, nothing is measured; the request that waits is reason enough."""
    nobody = Unknown("no instance is ready")
    asleep = view(0, waiting=1, pending=nobody, gpu_utilization=nobody, offered_load=nobody)
    wish = policy.wanted(asleep)
    assert wish.replicas == 1
    assert wish.reason.startswith("1 request waits")
