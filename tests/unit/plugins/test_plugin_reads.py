"""Which signals a policy may read, and what they are made of."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest

from tarn import plugins
from tarn.control.policy import scaling
from tarn.control.scrape import Families
from tarn.domain import FleetView, Known, Sample, Wish
from tarn.domain.signals import SIGNALS, Samples
from tarn.errors import ConfigErrors, PluginError
from tarn.hookspecs import Factory, hookimpl
from tarn.plugins.signals import family_of
from tarn.testing.context import master_context


@attrs.frozen
class Settings:
    """Of the policy `curious`."""

    signals: tuple[str, ...] = ()
    """What it reads."""


@attrs.frozen
class Nothing:
    """Of the signals."""


class Policy:
    def wanted(self, fleet: FleetView) -> Wish:
        return Wish(None, "no opinion")


class Steady:
    def read(self, samples: Samples, window_s: float) -> Sample[float]:
        return Known(window_s)


class Offering:
    """Offers the policy `curious`, and signals."""

    def __init__(self, *names: str, **more: Any) -> None:
        self.made: list[str] = []
        self._signals = {name: self._signal(name, **more) for name in names}

    def _signal(self, name: str, **more: Any) -> Factory[Any]:
        def create(_settings: object, _context: object) -> Steady:
            self.made.append(name)
            return Steady()

        return Factory(Nothing, create, "a signal", **more)

    @hookimpl
    def tarn_scaling_policies(self) -> Mapping[str, Factory[Any]]:
        policy = Factory(Settings, lambda _s, _c: Policy(), "reads", reads=lambda s: s.signals)
        return {"curious": policy}

    @hookimpl
    def tarn_signals(self) -> Mapping[str, Factory[Any]]:
        return self._signals


def loaded(*signals: str, **more: Any) -> tuple[plugins.Plugins, Offering]:
    offering = Offering(*signals, **more)
    return plugins.load([offering], points=()), offering


def refused(names: Iterable[str]) -> str:
    offered, _ = loaded("weather")
    factory = offered.choose("scaling", "curious", "scaling.use")
    with pytest.raises(ConfigErrors) as raised:
        offered.settings(factory, {"signals": list(names)}, "scaling.options")
    found = offered.problems(factory, {"signals": list(names)}, "scaling.options")
    assert len(found) == len(raised.value.errors)
    return "\n".join(str(error) for error in raised.value.errors)


def test_a_name_that_is_nothing_is_refused_with_all_there_is() -> None:
    """And with the nearest: a slip must not become a metric that never comes."""
    said = refused(["queue_tme"])
    assert said.startswith("scaling.options: there is no signal 'queue_tme'")
    assert all(name in said for name in (*SIGNALS, "weather", "nv_...", "metric/NAME"))
    assert "Did you mean 'queue_time'?" in said


def test_all_that_is_wrong_is_said_at_once() -> None:
    """Once each."""
    said = refused(["queue_us", "wether", "queue_us"])
    assert said.count("there is no signal") == 2
    assert "Did you mean 'weather'?" in said


@pytest.mark.parametrize(
    "name",
    [
        "nv_gpu_memory_used_bytes",
        "nv_gpu_memory_total_bytes",
        "gpu_memory_used_bytes",
        "metric/nv_gpu_memory_used_bytes",
    ],
)
def test_gpu_memory_is_no_signal(name: str) -> None:
    """90% used and idle: frameworks never give it back, so such a fleet would never shrink."""
    said = refused([name])
    assert f"the signal '{name}' is GPU memory" in said
    assert "does not fall" in said
    assert "gpu_utilization" in said


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("nv_inference_count", "nv_inference_count"),
        ("vllm:num_requests_waiting", "vllm:num_requests_waiting"),
        ("metric/my_gauge", "my_gauge"),
        ("metric/nv_inference_count", "nv_inference_count"),
        ("my_gauge", None),
        ("nv_inference count", None),
        ("metric/", None),
        ("metric/4", None),
        ("", None),
    ],
)
def test_a_metric_of_triton_is_told_by_its_name(name: str, family: str | None) -> None:
    """Its own and those of back ends as they are; what could be a slip only when said so."""
    assert family_of(name) == family


def made_with(tmp_path: Path, offered: plugins.Plugins, *names: str, **spec: Any) -> Any:
    context = master_context(tmp_path)
    section = attrs.evolve(
        context.spec.scaling, use="curious", options={"signals": list(names)}, **spec
    )
    return scaling(offered, attrs.evolve(context, spec=attrs.evolve(context.spec, scaling=section)))


def test_only_what_is_read_is_made_and_kept(tmp_path: Path) -> None:
    """A signal nobody reads opens nothing, and nothing is remembered for it."""
    offered, offering = loaded("weather", "tide")
    plain = made_with(tmp_path, offered, "pending", "queue_time")
    assert (plain.signals.reads, plain.kept.metrics, plain.kept.samples_s) == ({}, {}, 0.0)
    assert plain.families == Families()
    assert offering.made == []
    some = made_with(tmp_path, offered, "tide", "pending", "nv_cpu_utilization", "metric/x")
    assert offering.made == ["tide"]
    assert set(some.signals.reads) == {"tide"}
    assert some.kept.metrics == {"nv_cpu_utilization": "nv_cpu_utilization", "metric/x": "x"}
    assert some.kept.samples_s == some.signals.window_s == 30.0
    assert some.families == Families(("nv_cpu_utilization", "x"))


def test_the_lines_that_a_signal_looks_at_are_scraped(tmp_path: Path) -> None:
    """Its factory says which."""
    offered, _ = loaded("tide", reads=lambda _settings: ("nv_a", "nv_b"))
    assert made_with(tmp_path, offered, "tide").families == Families((), ("nv_a", "nv_b"))


def test_a_long_interval_has_a_long_window(tmp_path: Path) -> None:
    """A signal sees three looks at least."""
    offered, _ = loaded("tide")
    assert made_with(tmp_path, offered, "tide", interval_s=20.0).signals.window_s == 60.0


def test_a_signal_whose_modules_are_missing_says_what_to_install(tmp_path: Path) -> None:
    """Before anything starts."""
    offered, _ = loaded("tide", requires=("no_such_module",), extra="local")
    with pytest.raises(ConfigErrors) as raised:
        made_with(tmp_path, offered, "tide")
    assert str(raised.value) == (
        "scaling.options: the signal 'tide' needs the module no_such_module, not installed here. "
        "pip install 'tarn-orchestrator[local]'"
    )


def test_a_signal_that_is_always_there_cannot_be_offered() -> None:
    """Which of the two would it be?"""
    with pytest.raises(PluginError, match="offers the signal 'pending', which is built in"):
        loaded("pending")


def test_a_factory_that_cannot_say_what_it_reads_is_named() -> None:
    """It is the plugin's fault, not the user's."""

    class Broken(Offering):
        @hookimpl
        def tarn_scaling_policies(self) -> Mapping[str, Factory[Any]]:
            policy = Factory(Settings, lambda _s, _c: Policy(), "x", reads=lambda s: s.nonsense)
            return {"broken": policy}

    offered = plugins.load([Broken()], points=())
    factory = offered.choose("scaling", "broken", "scaling.use")
    with pytest.raises(PluginError, match=r"reads\(\) raised AttributeError"):
        offered.settings(factory, {}, "scaling.options")
