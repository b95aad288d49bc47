"""A policy that asks another: found, checked and made through the same door as any."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest

from tarn import plugins
from tarn.control.policy import scaling
from tarn.domain import Choice, FleetView, Limits, Wish
from tarn.errors import PluginError
from tarn.hookspecs import Factory, hookimpl
from tarn.testing.context import cluster_spec, master_context


@attrs.frozen
class Settings:
    """Of both policies."""

    inner: Choice | None = None
    """Who is asked."""
    replicas: int = 1
    """Wanted where nobody is asked."""


@attrs.frozen
class Policy:
    settings: Settings
    inner: Any

    def wanted(self, fleet: FleetView) -> Wish:
        if self.inner is not None:
            return self.inner.wanted(fleet)
        return Wish(self.settings.replicas, "so it was told")


def create(settings: Settings, context: Any) -> Policy:
    return Policy(settings, context.policy(settings.inner) if settings.inner else None)


def asks(settings: Settings) -> Mapping[str, Choice]:
    return {"inner": settings.inner} if settings.inner else {}


class Offering:
    """Offers the policy `relay`."""

    def __init__(self, asks: Any = asks) -> None:
        self.asks = asks

    @hookimpl
    def tarn_scaling_policies(self) -> Mapping[str, Factory[Any]]:
        reads = ("pending",)
        return {"relay": Factory(Settings, create, "x", reads=lambda _: reads, asks=self.asks)}


OFFERED = plugins.load([Offering()], points=())


def test_the_master_makes_who_is_asked(tmp_path: Path) -> None:
    """However deep they stand in one another; each with its own options."""
    innermost = {"use": "relay", "options": {"replicas": 7}}
    options = {"inner": {"use": "relay", "options": {"inner": innermost}}}
    spec = attrs.evolve(cluster_spec(), scaling=attrs.evolve(cluster_spec().scaling, use="relay"))
    spec = attrs.evolve(spec, scaling=attrs.evolve(spec.scaling, options=options))
    made = scaling(OFFERED, master_context(tmp_path, spec=spec))
    assert made.policy.wanted(FleetView(0.0, 1, Limits(0, 9))).replicas == 7


def test_what_is_wrong_with_who_is_asked_has_its_path() -> None:
    """As deep as it stands, and all of it at once."""
    factory = OFFERED.choose("scaling", "relay", "scaling.use")
    inner = {"use": "relay", "options": {"replicas": "7", "nonsense": 1}}
    found = OFFERED.problems(factory, {"inner": inner}, "scaling.options")
    assert [p.path for p in found] == [
        "scaling.options.inner.options.nonsense",
        "scaling.options.inner.options.replicas",
    ]
    (wrong,) = OFFERED.problems(factory, {"inner": {"use": "rely"}}, "scaling.options")
    assert wrong.found == "scaling.options.inner.use = 'rely': no plugin offers it (offered: relay)"
    assert wrong.next_step == "Did you mean 'relay'?"


def test_a_context_that_makes_no_policies_says_so(tmp_path: Path) -> None:
    """Only a master makes them."""
    with pytest.raises(
        LookupError, match="a scaling policy such as 'relay' cannot be created here"
    ):
        create(Settings(Choice("relay")), master_context(tmp_path))


def test_a_factory_that_cannot_say_whom_it_asks_is_named() -> None:
    """It is the plugin's fault, not the user's."""
    offered = plugins.load([Offering(lambda settings: settings.nonsense)], points=())
    factory = offered.choose("scaling", "relay", "scaling.use")
    with pytest.raises(PluginError, match=r"asks\(\) raised AttributeError"):
        offered.settings(factory, {}, "scaling.options")
