"""29: the Java TARN's /instances listed draining and cold containers."""

import httpx
from fake_master import TOKEN, FakeMaster, instance, snapshot

from tarn.domain import InstanceState


def test_only_who_may_get_traffic_is_listed() -> None:
    """Ready and not suspect: in a thousand polls nobody else appears."""
    fleet = snapshot(
        instance(1),
        instance(2, InstanceState.STARTING),
        instance(3, InstanceState.DRAINING),
        instance(4, suspect="silent"),
    )
    headers = {"X-TARN-Token": TOKEN.decode()}
    with FakeMaster(fleet) as master, httpx.Client(trust_env=False, headers=headers) as web:
        answers = {web.get(f"{master.url}/instances").text for _ in range(50)}
    assert answers == {"127.0.0.1:8010\n"}
