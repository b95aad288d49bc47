"""A flood of invented models at a real HAProxy, behind which a real master has a limit."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import attrs
import pytest
from master_in_thread import at_work, brought
from security.matrix_master import API_TOKEN, PlayedPlugins
from servers.guarded_haproxy import TOKEN, GuardedHaproxy, RecordingTriton
from servers.haproxy import HAPROXY

from tarn.domain import Choice
from tarn.domain.spec import TrustedProxy
from tarn.testing.context import cluster_spec
from tarn.testing.wait import until

pytestmark = [
    pytest.mark.discovery,
    pytest.mark.timed,
    pytest.mark.skipif(HAPROXY is None, reason="no haproxy on this machine"),
]
LIMIT = 20
FLOOD = 400


@pytest.fixture
def door(tmp_path: Path) -> Iterator[GuardedHaproxy]:
    """Run a master that lets alice use ``echo``, and a HAProxy that asks it without any grace."""
    spec = cluster_spec()
    lb = TrustedProxy("lb1", "127.0.0.1", "token", token="env:LB")
    spec = attrs.evolve(
        spec,
        models=attrs.evolve(spec.models, repository="/models", serve=("echo",)),
        triton=attrs.evolve(spec.triton, restricted=()),
        runtime=Choice("stage"),
        authorizer=Choice("alices"),
        api=attrs.evolve(spec.api, port=0, trusted_proxies=(lb,), rate_limit=LIMIT),
        replicas=attrs.evolve(spec.replicas, min=0),
    )
    directory = tmp_path / "master"
    directory.mkdir()
    brought(directory, spec, API_TOKEN)
    (directory / "proxy_tokens.json").write_text(json.dumps({"lb1": TOKEN}))
    stage = PlayedPlugins()
    with at_work(directory, stage, stage.runtime), RecordingTriton() as triton:
        port = int(stage.runtime.api_url.rpartition(":")[2])
        more = {"grace_s": 0, "master": f"127.0.0.1:{port}"}
        with GuardedHaproxy(tmp_path, None, triton.port, more) as one:
            yield one


def test_a_flood_of_invented_models_takes_nothing_from_who_has_a_right(
    door: GuardedHaproxy,
) -> None:
    """What the master refuses is told as 503, never as a no; alice is served meanwhile."""
    with ThreadPoolExecutor(12) as pool:
        flood = [pool.submit(door.ask, f"/v2/models/invented{n}") for n in range(FLOOD)]
        until(lambda: sum(one.done() for one in flood) > 2 * LIMIT, 10, "the limit")
        assert door.knox("/v2/models/echo/infer", "POST").status == 200
        assert {one.result().status for one in flood} == {403, 503}
        assert door.knox("/v2/models/echo", "GET").status == 200
    assert "why=away" in door.log.read_text()
