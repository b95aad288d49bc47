"""What a provider raises by mistake names its plugin, for every kind of provider."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest

from tarn import plugins
from tarn.errors import PluginError, StorageError
from tarn.hookspecs import Factory, RuntimeFactory, SecretStoreFactory, StorageFactory, hookimpl
from tarn.interfaces import RuntimeCapabilities, Uploader
from tarn.plugins.kinds import KINDS


@attrs.frozen
class Nothing:
    """No settings."""


class Careless:
    """A provider whose methods raise what they should not."""

    where = "here"

    def resolve(self, *_: object) -> object:
        raise StorageError("no such bucket")  # type: ignore[call-arg] # the mistake itself

    def check(self, *_: object) -> Iterator[object]:
        yield "one"
        raise KeyError("spec")

    def find(self, name: str) -> str:
        return name

    def put(self, *_: object) -> object:
        fail()

    def names(self) -> object:
        raise StorageError("acme", "the store is sealed", next_step="Unseal it")


def fail(*_: object) -> Any:
    raise ZeroDivisionError("division by zero")


def made(*_: object) -> Any:
    return Careless()


class Acme:
    """A plugin that offers a provider of each kind."""

    def __init__(self, make: Callable[..., Any]) -> None:
        one: Factory[Any] = Factory(Nothing, make, "careless")
        capabilities = RuntimeCapabilities()
        self.offers: Mapping[str, Any] = {
            **dict.fromkeys(KINDS, one),
            "runtime": RuntimeFactory(Nothing, make, make, make, make, capabilities, "careless"),
            "secrets": SecretStoreFactory(Nothing, make, "careless"),
            "storage": StorageFactory(frozenset({"acme"}), make, "careless"),
        }

    @hookimpl
    def tarn_runtimes(self) -> Mapping[str, Any]:
        return {"acme": self.offers["runtime"]}

    @hookimpl
    def tarn_storages(self) -> Mapping[str, Any]:
        return {"acme": self.offers["storage"]}

    @hookimpl
    def tarn_discoveries(self) -> Mapping[str, Any]:
        return {"acme": self.offers["discovery"]}

    @hookimpl
    def tarn_authorizers(self) -> Mapping[str, Any]:
        return {"acme": self.offers["authorizer"]}

    @hookimpl
    def tarn_affinities(self) -> Mapping[str, Any]:
        return {"acme": self.offers["affinity"]}

    @hookimpl
    def tarn_scaling_policies(self) -> Mapping[str, Any]:
        return {"acme": self.offers["scaling"]}

    @hookimpl
    def tarn_secret_stores(self) -> Mapping[str, Any]:
        return {"acme": self.offers["secrets"]}

    @hookimpl
    def tarn_signals(self) -> Mapping[str, Any]:
        return {"acme": self.offers["signal"]}


def loaded(make: Callable[..., Any]) -> plugins.Plugins:
    return plugins.load([Acme(make)], points=())


def maker(kind: str, make: Callable[..., Any]) -> Callable[..., Any]:
    """Return what makes a provider of *kind*."""
    factory = loaded(make).choose(kind, "acme", f"{kind}.use")
    call: Callable[..., Any] = factory.deployer if kind == "runtime" else factory.create
    return call


@pytest.mark.parametrize("kind", KINDS)
def test_a_provider_that_cannot_be_made_names_its_plugin(kind: str) -> None:
    """What `create` raises is told with the kind, the name, and its own words."""
    with pytest.raises(PluginError) as caught:
        maker(kind, fail)()
    assert f"{kind} 'acme' raised ZeroDivisionError: division by zero" in str(caught.value)
    assert str(caught.value).startswith("plugin Acme")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_storage_that_makes_its_error_wrongly_is_told_as_its_plugins_fault() -> None:
    """``StorageError("text")`` lacks the provider: Python's TypeError names plugin and storage."""
    storage = loaded(made).storage_for("acme://bucket").create()
    with pytest.raises(PluginError, match="storage 'acme' raised TypeError") as caught:
        storage.resolve("acme://bucket", None)  # type: ignore[arg-type]
    assert "plugin Acme" in str(caught.value)


def test_what_fails_while_its_findings_are_read_is_told_too() -> None:
    """A generator raises late; what it gave before is kept."""
    found = maker("runtime", made)().check(None)
    assert next(found) == "one"
    with pytest.raises(PluginError, match="runtime 'acme' raised KeyError: 'spec'"):
        next(found)


def test_what_a_provider_says_on_purpose_passes() -> None:
    """An error of TARN's is shown as it is."""
    with pytest.raises(StorageError, match="the store is sealed"):
        maker("secrets", made)().names()


def test_values_and_results_pass() -> None:
    """The boundary changes nothing else; an attribute that is not there stays absent."""
    deployer = maker("runtime", made)()
    assert deployer.find("ocr") == "ocr"
    assert deployer.where == "here"
    with pytest.raises(AttributeError):
        _ = deployer.nothing


def test_a_provider_has_the_protocols_that_it_has_without_the_boundary() -> None:
    """``isinstance`` of Python 3.12 and newer sees only what is found without ``__getattr__``."""
    deployer = maker("runtime", made)()
    assert isinstance(deployer, Uploader)
    assert not isinstance(maker("storage", lambda *_: object())(), Uploader)
    with pytest.raises(PluginError, match="runtime 'acme' raised ZeroDivisionError"):
        inspect.getattr_static(deployer, "put")(Path("file"), "acme://file")
