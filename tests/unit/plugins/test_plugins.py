"""Loading plugins, choosing by name, announcing."""

import sys
import types
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint
from typing import Any

import attrs
import click
import pytest

from tarn import plugins
from tarn.domain import Event
from tarn.errors import ConfigErrors, PluginError, ProviderMissingError
from tarn.hookspecs import Factory, StorageFactory, hookimpl


@attrs.frozen
class Settings:
    """Some settings."""

    size: int = 1
    """How large."""
    wait_s: float = 1.0
    """How long."""


def factory(**more: Any) -> Factory[Any]:
    return Factory(Settings, lambda settings, _context: settings, "a policy", **more)


class Offering:
    """A plugin that offers scaling policies."""

    def __init__(self, *names: str, **more: Any) -> None:
        self._offer = {name: factory(**more) for name in names}

    @hookimpl
    def tarn_scaling_policies(self) -> Mapping[str, Factory[Any]]:
        return self._offer


class Storing:
    """A plugin that offers a storage."""

    def __init__(self, name: str, *schemes: str, requires: tuple[str, ...] = ()) -> None:
        self._offer = {
            name: StorageFactory(frozenset(schemes), object, "s", requires, "yarn")  # type: ignore[arg-type]
        }

    @hookimpl
    def tarn_storages(self) -> Mapping[str, StorageFactory]:
        return self._offer


class Listening:
    """A plugin that hears of events, and may fail at it."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.heard: list[Event] = []
        self._failure = failure

    @hookimpl
    def tarn_event(self, event: Event) -> None:
        self.heard.append(event)
        if self._failure is not None:
            raise self._failure


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, object], EntryPoint]:
    """Return how to install a plugin module for the time of a test."""

    def install(name: str, plugin: object) -> EntryPoint:
        module = types.ModuleType(f"plugin_of_a_test_{name}")
        module.plugin = plugin  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)
        return EntryPoint(name, f"{module.__name__}:plugin", "tarn")

    return install


def load(*extra: object, **more: Any) -> plugins.Plugins:
    return plugins.load(extra, points=(), **more)


def test_what_plugins_offer_is_found_by_name() -> None:
    """Sorted, whoever offers it."""
    loaded = load(Offering("b"), Offering("a", "c"))
    assert list(loaded.scaling_policies) == ["a", "b", "c"]
    assert loaded.choose("scaling", "b", "scaling.use").summary == "a policy"
    assert dict(loaded.runtimes) == {}


def test_a_stranger_comes_through_the_entry_points(
    installed: Callable[[str, object], EntryPoint],
) -> None:
    """And is named by its entry point."""
    loaded = plugins.load(points=[installed("queue", Offering("queue_depth"))])
    assert loaded.owner("scaling", "queue_depth") == "queue"
    assert loaded.names() == ("queue",)


@pytest.mark.parametrize("disabled", ["queue", "other, queue", "*"])
def test_a_stranger_can_be_left_out(
    installed: Callable[[str, object], EntryPoint], disabled: str
) -> None:
    """By name, or all that are not TARN's own."""
    points = [installed("queue", Offering("queue_depth"))]
    assert plugins.load(points=points, disabled=disabled).names() == ()


def test_a_plugin_that_cannot_be_imported_is_named() -> None:
    """With the cause chained, and how to go on without it."""
    point = EntryPoint("broken", "no_such_module_of_anybody", "tarn")
    with pytest.raises(PluginError, match="no_such_module_of_anybody") as caught:
        plugins.load(points=[point])
    assert caught.value.plugin == "broken"
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)
    assert "TARN_DISABLED_PLUGINS=broken" in str(caught.value)


def test_two_plugins_that_offer_one_name_are_both_named() -> None:
    """Which of them was meant, nobody can know."""
    with pytest.raises(PluginError, match="offers scaling 'same', which plugin") as caught:
        load(Offering("same"), Offering("same"))
    assert "Offering (extra 0)" in str(caught.value)
    assert "Offering (extra 1)" in str(caught.value)


def test_two_storages_that_claim_one_scheme_are_both_named() -> None:
    """The scheme chooses, so it must have one owner."""
    with pytest.raises(PluginError, match="claims the scheme 's3', which storage"):
        load(Storing("one", "s3"), Storing("two", "s3", "gs"))


def test_a_misspelt_hook_is_refused() -> None:
    """It would never be called, and nobody would know why."""

    class Misspelt:
        @hookimpl
        def tarn_scaling_policy(self) -> None: ...

    with pytest.raises(PluginError, match="tarn_scaling_policy") as caught:
        load(Misspelt())
    assert "Misspelt" in caught.value.plugin


def test_a_hook_with_a_wrong_argument_is_refused() -> None:
    """Which one is said by pluggy; the error names the plugin."""

    class Wrong:
        @hookimpl
        def tarn_event(self, evnt: Event) -> None: ...

    with pytest.raises(PluginError, match="evnt"):
        load(Wrong())


EVENT = Event("TARN-1002", "fleet", "started", 0.0, 0.0)


class Around:
    """A plugin whose wrapper notes what it wraps."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.seen: list[Any] = []
        self.fault = fault

    @hookimpl(wrapper=True)
    def tarn_event(self, event: Event) -> Any:
        try:
            return (yield)
        finally:
            self.seen.append(event.subject)
            if self.fault is not None:
                raise self.fault

    @hookimpl(wrapper=True)
    def tarn_storages(self) -> Any:
        (offered,) = yield
        self.seen.append(set(offered))
        return [{name.upper(): factory for name, factory in offered.items()}]


def test_a_hook_wrapper_is_called_around_each_plugin() -> None:
    """It gets a list with what that one plugin returned, and may return another one."""
    around = Around()
    loaded = load(Storing("one", "a"), around, Storing("two", "b"))
    assert around.seen == [{"one"}, {"two"}]
    assert set(loaded.storages) == {"ONE", "TWO"}
    assert loaded.owner("storage", "TWO") != loaded.owner("storage", "ONE")


def test_a_wrapper_around_an_announcement_sees_each_listener() -> None:
    around, one, two = Around(), Listening(), Listening()
    load(one, around, two).event(EVENT)
    assert [len(one.heard), len(two.heard)] == [1, 1]
    assert around.seen == [EVENT.subject] * 2


def test_a_wrapper_that_raises_is_the_one_to_blame() -> None:
    around, listener = Around(ValueError("torn")), Listening()
    with pytest.raises(PluginError, match="tarn_event raised ValueError: torn") as caught:
        load(listener, around).event(EVENT)
    assert "Around" in caught.value.plugin
    assert len(listener.heard) == 1


def test_a_plugin_that_raises_within_a_wrapper_is_the_one_to_blame() -> None:
    with pytest.raises(PluginError, match="tarn_event raised") as caught:
        load(Listening(RuntimeError("deaf")), Around()).event(EVENT)
    assert "Listening" in caught.value.plugin


@pytest.mark.parametrize(
    ("offer", "said"), [(None, "returned a NoneType"), (ValueError("no"), "raised ValueError: no")]
)
def test_a_plugin_that_fails_while_offering_is_named(offer: object, said: str) -> None:
    """An exception, or something that is no mapping."""

    class Failing:
        @hookimpl
        def tarn_discoveries(self) -> Any:
            if isinstance(offer, Exception):
                raise offer
            return offer

    with pytest.raises(PluginError, match=said) as caught:
        load(Failing())
    assert "Failing" in caught.value.plugin


def test_an_unknown_name_gets_the_list_and_a_guess() -> None:
    """The message of the house."""
    with pytest.raises(ProviderMissingError) as caught:
        load(Offering("fixed", "other")).choose("scaling", "fxed", "scaling.use")
    assert str(caught.value) == (
        "scaling.use = 'fxed': no plugin offers it (offered: fixed, other). Did you mean 'fixed'?"
    )
    assert caught.value.exit_code == 6


@pytest.mark.parametrize(
    ("kind", "name", "part"),
    [("runtime", "skein", "SKEIN")],
)
def test_a_name_of_a_later_part_names_the_part(kind: str, name: str, part: str) -> None:
    """Documented elsewhere, absent here: the reader learns why."""
    with pytest.raises(ProviderMissingError, match=f"comes with the part {part}") as caught:
        load().choose(kind, name, "x.use")
    assert caught.value.code == "TARN-2004"


def test_a_name_that_is_offered_is_used_though_a_later_part_has_it_too() -> None:
    """The table of what is to come never hides what is there."""

    class Secretive:
        @hookimpl
        def tarn_secret_stores(self) -> Mapping[str, Factory[Any]]:
            return {"jceks": factory()}

    assert load(Secretive()).choose("secrets", "jceks", "secrets[0].use")


def test_missing_modules_become_one_line_with_the_extra() -> None:
    """What to install, ready to paste."""
    loaded = load(Offering("a", requires=("attrs", "no_such_module"), extra="yarn"))
    with pytest.raises(ProviderMissingError) as caught:
        loaded.choose("scaling", "a", "scaling.use")
    assert str(caught.value) == (
        "scaling.use = 'a': needs the module no_such_module, not installed here. "
        "pip install 'tarn-orchestrator[yarn]'"
    )


@pytest.mark.parametrize(
    ("uri", "storage"),
    [("/models", "mount"), ("models", "mount"), ("hdfs:///m", "hadoop"), ("s3://b/m", "copy")],
)
def test_the_scheme_chooses_the_storage(uri: str, storage: str) -> None:
    """A bare path has the empty scheme; `*` takes what nobody else claims, but no path."""
    loaded = load(Storing("mount", ""), Storing("copy", "*"), Storing("hadoop", "hdfs"))
    assert loaded.storage_for(uri) is loaded.storages[storage]


def test_a_scheme_that_nobody_takes_is_said() -> None:
    """With what would be taken; and a storage without its modules says what to install."""
    loaded = load(Storing("mount", ""), Storing("hadoop", "hdfs", requires=("no_such",)))
    with pytest.raises(
        ProviderMissingError, match=r"no storage supports s3:// \(supported: hdfs://, a p"
    ):
        loaded.storage_for("s3://b/m")
    with pytest.raises(ProviderMissingError, match="storage for hdfs:// needs the module no_such"):
        loaded.storage_for("hdfs:///m")
    with pytest.raises(ProviderMissingError, match="no storage supports a path"):
        load(Storing("copy", "*")).storage_for("/m")


def test_settings_are_made_by_the_providers_own_class() -> None:
    """Units included; all errors at once, with the path where they were written."""
    loaded = load(Offering("a"))
    chosen = loaded.choose("scaling", "a", "scaling.use")
    assert loaded.settings(chosen, {"wait": "2s"}, "scaling.options") == Settings(1, 2.0)
    with pytest.raises(ConfigErrors) as caught:
        loaded.settings(chosen, {"wait": 2, "sze": 3}, "scaling.options")
    assert [str(error) for error in caught.value.errors] == [
        "scaling.options.sze: unknown key. Did you mean 'size'?",
        (
            "scaling.options.wait = 2: a duration needs its unit. "
            "Write 2s, or for example 10m, 1.5s or 250ms"
        ),
    ]


def test_settings_that_cannot_be_read_are_the_plugins_fault() -> None:
    """No attrs class, or a field of a type that YAML cannot give."""

    @attrs.frozen
    class Odd:
        number: complex = 0j

    for settings, said in ((dict, "is not an attrs class"), (Odd, "complex")):
        plugin = Offering("a")
        plugin._offer["a"] = attrs.evolve(plugin._offer["a"], settings=settings)
        loaded = load(plugin)
        with pytest.raises(PluginError, match=said) as caught:
            loaded.settings(loaded.scaling_policies["a"], {"number": 1}, "x")
        assert "Offering" in caught.value.plugin


def test_every_plugin_hears_even_after_one_raised() -> None:
    """The error names the culprit, for the announcer to count."""
    event = EVENT
    good, bad, last = Listening(), Listening(RuntimeError("deaf")), Listening()
    loaded = load(good, bad, last)
    with pytest.raises(PluginError, match="tarn_event raised RuntimeError: deaf") as caught:
        loaded.event(event)
    assert caught.value.plugin == "Listening (extra 1)"
    assert good.heard == bad.heard == last.heard == [event]


def test_plugins_add_commands() -> None:
    """Each gets the group of `tarn`."""

    class Commanding:
        @hookimpl
        def tarn_cli(self, commands: click.Group) -> None:
            commands.add_command(click.Command("extra"))

    group = click.Group()
    load(Commanding()).cli(group)
    assert list(group.commands) == ["extra"]
