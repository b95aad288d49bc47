"""A master whose control thread stands still, or raises each tick, is not alive."""

import threading
from collections.abc import Mapping
from pathlib import Path

import attrs
import httpx
import pytest
from master_in_thread import at_work, brought, running

from tarn.clock import SystemClock
from tarn.control import pulse
from tarn.domain import Fact
from tarn.hookspecs import RuntimeFactory, hookimpl
from tarn.testing.context import cluster_spec
from tarn.testing.fakes import FakeRuntime
from tarn.testing.wait import until

TOKEN = "correct-horse"


class Stubborn(FakeRuntime):
    """Answers the control thread as it is told to: not at all, or with an error."""

    def __init__(self) -> None:
        super().__init__(clock=SystemClock())
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.raises = False

    def facts(self) -> tuple[Fact, ...]:
        if self.raises:
            raise RuntimeError("a fault of ours")
        self.goes_on.wait(30.0)
        return super().facts()


@attrs.frozen
class Plugin:
    runtime: Stubborn

    @hookimpl
    def tarn_runtimes(self) -> Mapping[str, RuntimeFactory]:
        return {"stubborn": running(self.runtime)}


def test_livez_is_503_while_the_control_thread_hangs_or_raises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And 200 again with the next tick that goes through; what is shown says how old it is."""
    monkeypatch.setattr(pulse, "LEAST_S", 0.3)
    spec = cluster_spec()
    spec = attrs.evolve(
        spec,
        runtime=attrs.evolve(spec.runtime, use="stubborn"),
        replicas=attrs.evolve(spec.replicas, min=0),
        scaling=attrs.evolve(spec.scaling, interval_s=0.1),
    )
    brought(tmp_path, spec, TOKEN)
    runtime = Stubborn()
    with (
        at_work(tmp_path, Plugin(runtime), runtime),
        httpx.Client(
            base_url=runtime.api_url, trust_env=False, headers={"X-TARN-Token": TOKEN}
        ) as web,
    ):

        def livez(status: int) -> bool:
            return web.get("/livez").status_code == status

        until(lambda: livez(200))
        runtime.goes_on.clear()
        until(lambda: livez(503))
        assert web.get("/readyz").text.startswith("CONTROL_THREAD_STOPPED\n")
        assert "TARN-1031" in web.get("/health").text
        status = web.get("/api/v1/status")
        assert status.status_code == 200, status.text
        assert "TARN-1031" in status.json()["warnings"][0]
        runtime.goes_on.set()
        # a tick may be late on a busy machine: the next one is told as well
        until(lambda: "TARN-1031" not in web.get("/health").text)
        until(lambda: livez(200))
        runtime.raises = True
        until(lambda: livez(503))
        runtime.raises = False
        until(lambda: livez(200))
