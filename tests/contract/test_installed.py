"""No provider is offered that no suite has looked at, and every seam has all three parts."""

import importlib
import inspect
from pathlib import Path

import attrs
import pytest

from tarn import interfaces, plugins
from tarn.testing import contracts, fakes

SUITES_OF = {
    "runtime": (
        contracts.RuntimeContract,
        contracts.DeployerContract,
        contracts.StateStoreContract,
    ),
    "storage": (contracts.StorageContract,),
    "discovery": (contracts.DiscoveryContract,),
    "affinity": (contracts.AffinityContract,),
    "authorizer": (contracts.AuthorizerContract,),
    "scaling": (contracts.ScalingPolicyContract,),
    "secrets": (contracts.SecretStoreContract,),
    "signal": (contracts.SignalContract,),
}
OFFERED = [
    (kind, name, factory)
    for kind in plugins.KINDS
    for name, factory in plugins.load().offers(kind).items()
]
IDS = [f"{kind}-{name}" for kind, name, _ in OFFERED]


def classes_under_test() -> list[type]:
    """Return every test class of the suites beside this file, and of those over real servers."""
    tests = Path(__file__).parents[1]
    elsewhere = (
        "discovery/test_*_contract.py",
        "security/**/test_*_contract.py",
        "security/test_*_suite.py",
    )
    paths = [path for one in ("contract/test_*_suite.py", *elsewhere) for path in tests.glob(one)]
    names = sorted(".".join(path.relative_to(tests).with_suffix("").parts) for path in paths)
    modules = [importlib.import_module(name) for name in names]
    return [kind for module in modules for _, kind in inspect.getmembers(module, inspect.isclass)]


@pytest.mark.parametrize(("kind", "name", "factory"), OFFERED, ids=IDS)
def test_every_installed_provider_is_under_contract(kind, name, factory):
    """Each suite of its seam runs over it."""
    for suite in SUITES_OF[kind]:
        looked_at = [
            k
            for k in classes_under_test()
            if issubclass(k, suite) and _factory(k) == _as_offered(factory)
        ]
        assert looked_at, f"no test class of {suite.__name__} has the factory of {kind} '{name}'"


@pytest.mark.parametrize(("kind", "name", "factory"), OFFERED, ids=IDS)
def test_every_installed_provider_is_described_in_one_line(kind, name, factory):
    """`tarn plugins` shows the summary, and `tarn config schema` the settings."""
    assert factory.summary.strip()
    assert "\n" not in factory.summary
    assert kind == "storage" or attrs.has(factory.settings)


def test_every_kind_of_provider_has_a_suite():
    """A new hook that offers providers comes with a contract."""
    assert set(SUITES_OF) == set(plugins.KINDS)


def test_protocols_fakes_and_suites_are_equally_many():
    """Each seam has one Protocol, one fake and one suite."""
    protocols = {
        name
        for name, kind in vars(interfaces).items()
        if inspect.isclass(kind) and getattr(kind, "_is_protocol", False) and name != "Protocol"
    }
    hooks = {"Doctor"}  # its checks are records
    given = {"ClusterInspection"}  # what the core gives to a tool: no provider implements it
    suites = {name.removesuffix("Contract") for name in contracts.__all__}
    assert suites - hooks == protocols - given
    fake = {"ScalingPolicy": "FakePolicy"}
    assert all(hasattr(fakes, fake.get(name, f"Fake{name}")) for name in protocols - given)


def _as_offered(factory):
    """Return *factory* as its plugin offers it: without the boundary that names the plugin."""
    made = {
        field.name: inspect.unwrap(value)
        for field in attrs.fields(type(factory))
        if hasattr(value := getattr(factory, field.name), "__wrapped__")
    }
    return attrs.evolve(factory, **made)


def _factory(suite: type) -> object:
    """Return what *suite* looks at; ``offered`` where it must replace the doors to a server."""
    found = getattr(suite, "offered", getattr(suite, "factory", None))
    return _as_offered(found) if attrs.has(type(found)) else found
