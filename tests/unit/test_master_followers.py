"""Whose a follower's name is, at masters as they are composed for real."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest
from master_in_thread import at_work, brought, running

from tarn.domain import Choice
from tarn.domain.spec import DiscoverySpec, TrustedProxy
from tarn.hookspecs import Factory, RuntimeFactory, hookimpl
from tarn.interfaces import Discovery
from tarn.testing.context import cluster_spec
from tarn.testing.fakes import FakeDiscovery, FakeRuntime, FakeShelf, FakeStateStore

API_TOKEN = "the-api-token-of-the-cluster"
LB_TOKEN = "the-own-token-of-one-load-balancer"


@attrs.frozen
class Named:
    """Who follows from elsewhere."""

    followers: tuple[str, ...] = ()


class World:
    """One cluster: its masters come and go, what they keep stays."""

    def __init__(self) -> None:
        self.shelf = FakeShelf()
        self.runtime = FakeRuntime()

    @hookimpl
    def tarn_discoveries(self) -> Mapping[str, Factory[Discovery]]:
        return {"far": Factory(Named, lambda _settings, _context: FakeDiscovery(), "elsewhere")}

    @hookimpl
    def tarn_runtimes(self) -> Mapping[str, RuntimeFactory]:
        return {"world": running(self.runtime, lambda: FakeStateStore(self.shelf))}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    spec = cluster_spec()
    lb = TrustedProxy("lb1", "127.0.0.1", "token", token="env:LB")
    spec = attrs.evolve(
        spec,
        runtime=Choice("world"),
        triton=attrs.evolve(spec.triton, restricted=()),
        api=attrs.evolve(spec.api, port=0, trusted_proxies=(lb,)),
        replicas=attrs.evolve(spec.replicas, min=0),
        discovery=(DiscoverySpec("far", {"followers": ["lb1"]}, required=True),),
    )
    brought(tmp_path, spec, API_TOKEN)
    (tmp_path / "proxy_tokens.json").write_text(json.dumps({"lb1": LB_TOKEN}))
    return tmp_path


def test_nobody_speaks_for_a_required_follower_not_even_right_after_a_restart(
    directory: Path,
) -> None:
    """The next master knows whose the name is, before its follower has found it."""
    world = World()

    def tell(token: str, name: str = "lb1", **more: Any) -> httpx.Response:
        headers = {"X-TARN-Token": token}
        url = world.runtime.api_url
        with httpx.Client(base_url=url, headers=headers, trust_env=False) as web:
            status = web.get("/api/v1/status").json()
            word = {"epoch": status["epoch"], "revision": 1, **more}
            return web.put(f"/api/v1/followers/{name}", json=word)

    with at_work(directory, world, world.runtime):
        assert tell(LB_TOKEN).status_code == 200
        forged = tell(API_TOKEN)
        assert forged.status_code == 409
        assert forged.json()["error"]["code"] == "TARN-1312"
        assert "belongs to the trusted proxy lb1" in forged.json()["error"]["found"]
        assert tell(API_TOKEN, "lb2", lease="1h").status_code == 400
        assert tell(API_TOKEN, "lb2", error="x" * 200_000).status_code == 200
    world.runtime = FakeRuntime()
    with at_work(directory, world, world.runtime):
        assert tell(API_TOKEN).status_code == 409
        assert tell(LB_TOKEN).status_code == 200
