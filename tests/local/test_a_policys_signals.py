"""A stranger's policy and signal in a real master, over a real Triton."""

import pytest
from house import House, until
from stranger import install

pytestmark = pytest.mark.triton

PLUGIN = '''
"""A policy that wants two as soon as it knows its signals, and one of them."""

import attrs

from tarn.domain import Known, Unknown, Wish
from tarn.hookspecs import Factory, hookimpl


@attrs.frozen
class Settings:
    signals: tuple[str, ...] = ("pulse", "nv_inference_count", "latency_p95")


@attrs.frozen
class Nothing:
    pass


@attrs.frozen
class Curious:
    settings: Settings

    def wanted(self, fleet):
        said = {name: fleet.latest(name) for name in self.settings.signals}
        if not isinstance(said["nv_inference_count"], Known):
            return Wish(None, "not yet")
        words = (f"{n}={getattr(s, 'value', None) or s}" for n, s in said.items())
        return Wish(2, "; ".join(words))


class Pulse:
    def read(self, samples, window_s):
        rows = [row for each in samples.values() for row in each]
        return Known(float(len(samples))) if rows else Unknown("nobody was read")


@hookimpl
def tarn_scaling_policies():
    make = lambda settings, _context: Curious(settings)
    return {"curious": Factory(Settings, make, "is curious", reads=lambda s: s.signals)}


@hookimpl
def tarn_signals():
    return {"pulse": Factory(Nothing, lambda _settings, _context: Pulse(), "counts instances")}
'''


@pytest.mark.timeout(120)
def test_a_policy_reads_what_its_factory_names(house: House) -> None:
    """A plugin's signal, a metric by its name, and one that says which setting it lacks."""
    house.environ["PYTHONPATH"] = install(house.root / "plugins", "curious", PLUGIN)
    replicas = {"min": 1, "max": 2, "initial": 1}
    spec = house.spec("reads", scaling={"use": "curious", "cooldown": "0s"}, replicas=replicas)
    done = house.tarn("up", "-f", spec)
    assert done.returncode == 0, done.stderr
    until(lambda: house.status("reads")["desired"] == 2, 30, "the policy's wish")
    events = house.tarn("events", "-c", "reads").stdout
    assert "by policy curious: pulse=1.0; nv_inference_count=" in events
    assert "metrics-config: [summary_latencies=true]" in events


@pytest.mark.timeout(60)
def test_a_signal_that_does_not_exist_is_refused_before_anything_starts(house: House) -> None:
    """With the place in the file, what there is, and what was meant."""
    house.environ["PYTHONPATH"] = install(house.root / "plugins", "curious", PLUGIN)
    options = {"signals": ["puls", "nv_gpu_memory_used_bytes"]}
    done = house.tarn(
        "up", "-f", house.spec("refused", scaling={"use": "curious", "options": options})
    )
    assert done.returncode == 2
    assert "scaling.options: there is no signal 'puls'" in done.stderr
    assert "Did you mean 'pulse'?" in done.stderr
    assert "the signal 'nv_gpu_memory_used_bytes' is GPU memory" in done.stderr
    assert not house.processes("refused")
