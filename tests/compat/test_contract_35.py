"""35: the Java TARN's /health stayed 503 for half a minute after five polls during warm-up."""

import httpx
from fake_master import FakeMaster, instance, snapshot, view

from tarn.domain import ClusterState, InstanceState


def test_health_is_good_at_the_first_poll_after_an_instance_is_ready() -> None:
    """However often it was asked before."""
    cold = snapshot(instance(1, InstanceState.STARTING), state=ClusterState.STARTING)
    with FakeMaster(cold) as master, httpx.Client(base_url=master.url, trust_env=False) as web:
        for _ in range(20):
            answer = web.get("/health")
            assert (answer.status_code, answer.text.splitlines()[0]) == (503, "NO_INSTANCES_READY")
        ready = (instance(1),)
        master.publish(instances=ready, view=view(ready), state=ClusterState.READY)
        answer = web.get("/health")
    assert (answer.status_code, answer.text.splitlines()[0]) == (200, "OK")
