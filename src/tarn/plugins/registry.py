"""What the loaded plugins offer, chosen by name; and how they are told what happens."""

import importlib.util
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, cast
from urllib.parse import urlsplit

import attrs
import click
import pluggy

from tarn.domain import ClusterSpec, Decision, Event, Instance
from tarn.domain.signals import SIGNALS
from tarn.errors import ConfigError, ConfigErrors, PluginError, ProviderMissingError
from tarn.hookspecs import (
    Factory,
    FileCheck,
    LintRule,
    RuntimeFactory,
    SecretStoreFactory,
    StorageFactory,
)
from tarn.interfaces import (
    Authorizer,
    CeilingSource,
    Check,
    ClientContext,
    Discovery,
    MasterContext,
    ScalingPolicy,
    Signal,
)
from tarn.plain import Problem, did_you_mean, join, structure
from tarn.plugins.boundary import guarded
from tarn.plugins.checks import offered
from tarn.plugins.kinds import KINDS, Provider, instead
from tarn.plugins.signals import SignalNeeds, needs, problems

__all__ = ["Plugins"]


class Plugins:
    """What the loaded plugins offer, by kind and name. Immutable; made by `load`."""

    def __init__(self, manager: pluggy.PluginManager) -> None:
        self._manager = manager
        self._owners: dict[tuple[str, str], str] = {}
        self._offers = {kind: self._gather(kind, hook) for kind, hook in KINDS.items()}
        self._claims = self._claimed_schemes()
        for name in SIGNALS.keys() & self.signals.keys():
            owner = self.owner("signal", name)
            raise PluginError(owner, f"offers the signal '{name}', which is built in")

    def _gather(self, kind: str, hook: str) -> Mapping[str, Any]:
        offers: dict[str, Any] = {}
        for implementation in getattr(self._manager.hook, hook).get_hookimpls():
            owner = implementation.plugin_name
            for name, factory in self._offer(owner, hook, implementation.function).items():
                if name in offers:
                    other = self._owners[kind, name]
                    raise PluginError(
                        owner,
                        f"offers {kind} '{name}', which plugin {other} offers too",
                        next_step=f"Uninstall one, or set TARN_DISABLED_PLUGINS={owner}",
                    )
                offers[name] = guarded(factory, owner, kind, name)
                self._owners[kind, name] = owner
        return MappingProxyType(dict(sorted(offers.items())))

    @staticmethod
    def _offer(owner: str, hook: str, call: Callable[[], Any]) -> Mapping[str, Any]:
        try:
            offered = call()
        except Exception as error:
            raise PluginError(
                owner, f"{hook} raised {type(error).__name__}: {error}",
                next_step=f"Fix it, or set TARN_DISABLED_PLUGINS={owner}",
            ) from error  # fmt: skip
        if not isinstance(offered, Mapping):
            kind = type(offered).__name__
            raise PluginError(owner, f"{hook} returned a {kind}; a mapping of names is needed")
        return offered

    def _claimed_schemes(self) -> Mapping[str, str]:
        claims: dict[str, str] = {}
        for name, factory in self.storages.items():
            for scheme in sorted(factory.schemes):
                if scheme in claims:
                    mine, other = self.owner("storage", name), claims[scheme]
                    raise PluginError(
                        mine,
                        f"storage '{name}' claims the scheme '{scheme}', which storage '{other}' "
                        f"of plugin {self.owner('storage', other)} claims too",
                        next_step=f"Uninstall one, or set TARN_DISABLED_PLUGINS={mine}",
                    )
                claims[scheme] = name
        return claims

    # -- what is offered

    @property
    def runtimes(self) -> Mapping[str, RuntimeFactory]:
        """Runtimes, by the name in ``runtime.use``."""
        return self._offers["runtime"]

    @property
    def storages(self) -> Mapping[str, StorageFactory]:
        """Storages; `storage_for` chooses."""
        return self._offers["storage"]

    @property
    def discoveries(self) -> Mapping[str, Factory[Discovery]]:
        """Discoveries, by the name in ``discovery[].use``."""
        return self._offers["discovery"]

    @property
    def authorizers(self) -> Mapping[str, Factory[Authorizer]]:
        """Authorizers, by the name in ``authorizer.use``."""
        return self._offers["authorizer"]

    @property
    def scaling_policies(self) -> Mapping[str, Factory[ScalingPolicy]]:
        """Scaling policies, by the name in ``scaling.use``."""
        return self._offers["scaling"]

    @property
    def secret_stores(self) -> Mapping[str, SecretStoreFactory]:
        """Secret stores, by the name in ``secrets[].use``."""
        return self._offers["secrets"]

    @property
    def signals(self) -> Mapping[str, Factory[Signal]]:
        """Signals, by the name that policies ask for."""
        return self._offers["signal"]

    @property
    def ceilings(self) -> Mapping[str, Factory[CeilingSource]]:
        """Sources of a farm's ceiling, by the farm's type."""
        return self._offers["ceiling"]

    def offers(self, kind: str) -> Mapping[str, Provider]:
        """Return everything of one kind (a key of `KINDS`)."""
        return self._offers[kind]

    def owner(self, kind: str, name: str) -> str:
        """Return the plugin that offers *name*."""
        return self._owners[kind, name]

    def names(self) -> tuple[str, ...]:
        """Return the loaded plugins, sorted."""
        return tuple(sorted(name for name, _ in self._manager.list_name_plugin()))

    # -- choosing

    def choose(self, kind: str, name: str, where: str) -> Any:
        """Return the factory that is offered under *name*, ready to be used.

        Args:
            kind: A key of `KINDS`: ``runtime``, ``discovery``, ….
            name: What the user wrote.
            where: The key at which it was written, for the message: ``scaling.use``.

        Raises:
            ProviderMissingError: Nobody offers it, it comes with a later part, or the modules
                that it requires are not installed.
        """
        offered = self._offers[kind]
        if name in offered:
            self._demand_modules(f"{where} = '{name}':", name, offered[name])
            return offered[name]
        known = instead(kind, name)
        listed = f"offered: {', '.join(offered) or 'nothing'}"
        found = known or f"no plugin offers it ({listed})"
        near = "" if known else did_you_mean(name, offered)
        raise _missing(name, f"{where} = '{name}': {found}", near, "TARN-2004" if known else "")

    @staticmethod
    def _demand_modules(what: str, name: str, factory: Provider) -> None:
        missing = [module for module in factory.requires if not _installed(module)]
        if missing:
            bring = f"'tarn-orchestrator[{factory.extra}]'" if factory.extra else " ".join(missing)
            noun = "module" if len(missing) == 1 else "modules"
            found = f"{what} needs the {noun} {', '.join(missing)}, not installed here"
            raise _missing(name, found, f"pip install {bring}")

    def storage_for(self, uri: str) -> StorageFactory:
        """Return the storage that claims the scheme of *uri*; a bare path has the scheme ``""``.

        Raises:
            ProviderMissingError: Nobody claims it, or its modules are not installed.
        """
        scheme = urlsplit(uri).scheme if "://" in uri else ""
        name = self._claims.get(scheme) or (self._claims.get("*") if scheme else None)
        shown = f"{scheme}://" if scheme else "a path"
        if name is None:
            claimed = ", ".join(f"{known}://" if known else "a path" for known in self._claims)
            found = (
                f"models.repository: no storage supports {shown} (supported: "
                f"{claimed or 'nothing'})"
            )
            near = did_you_mean(scheme, self._claims) if scheme else ""
            raise _missing(scheme or "path", found, near)
        factory = self.storages[name]
        self._demand_modules(f"storage for {shown}", name, factory)
        return factory

    def problems(
        self, factory: Any, options: Mapping[str, object], where: str
    ) -> tuple[Problem, ...]:
        """Return what is wrong with *options* for this provider; nothing when all is well."""
        return self._structured(factory, options, where)[1]

    def settings(self, factory: Any, options: Mapping[str, object], where: str) -> Any:
        """Return the provider's settings made from what the user wrote.

        Raises:
            ConfigErrors: All that is wrong with *options*; paths begin with *where*.
        """
        settings, problems = self._structured(factory, options, where)
        if problems:
            raise ConfigErrors(
                [
                    ConfigError(p.found, code=p.code, right=p.right, next_step=p.next_step)
                    for p in problems
                ]
            )
        return settings

    def _structured(
        self, factory: Any, options: Mapping[str, object], where: str
    ) -> tuple[Any, tuple[Problem, ...]]:
        cls: type[Any] = factory.settings
        if not attrs.has(cls):
            raise PluginError(self._owner_of(factory), f"settings {cls!r} is not an attrs class")
        try:
            settings, found = structure(cls, options, where)
        except TypeError as error:
            raise PluginError(
                self._owner_of(factory), f"settings {cls.__qualname__}: {error}"
            ) from error
        if not found and any(factory is policy for policy in self.scaling_policies.values()):
            asked = tuple(self._wrong_asked(factory, settings, where))
            own = self._call(factory, "reads", settings)
            found = (*self._unreadable(tuple(own), where), *asked)
        return settings, found

    def _wrong_asked(self, factory: Factory[Any], settings: Any, where: str) -> Iterator[Problem]:
        """Yield what is wrong with the policies that a policy asks."""
        for key, choice in self._call(factory, "asks", settings).items():
            at = join(where, key)
            try:
                asked = self.choose("scaling", choice.use, join(at, "use"))
            except ProviderMissingError as error:
                path = join(at, "use")
                text = error.found.removeprefix(path)
                yield Problem(path, error.code, text, error.right, error.next_step)
            else:
                yield from self.problems(asked, choice.options, join(at, "options"))

    def _unreadable(self, names: tuple[str, ...], where: str) -> Iterator[Problem]:
        yield from problems(names, self.signals, where)
        for name in needs(names, self.signals).plugins:
            try:
                self._demand_modules(f"the signal '{name}'", name, self.signals[name])
            except ProviderMissingError as error:
                yield Problem(where, error.code, f": {error.found}", next_step=error.next_step)

    def _call(self, factory: Factory[Any], what: str, settings: Any) -> Any:
        """Return what the factory says of *settings*: a fault there names its plugin."""
        try:
            said = getattr(factory, what)(settings)
            return dict(said) if isinstance(said, Mapping) else tuple(said)
        except Exception as error:
            found = f"{what}() raised {type(error).__name__}: {error}"
            raise PluginError(self._owner_of(factory), found) from error

    def _reads(self, factory: Factory[Any], settings: Any) -> tuple[str, ...]:
        """Return what it reads, and what those read that it asks."""
        own: tuple[str, ...] = self._call(factory, "reads", settings)
        for key, choice in self._call(factory, "asks", settings).items():
            asked = self.scaling_policies[choice.use]
            own += self._reads(asked, self.settings(asked, choice.options, join(key, "options")))
        return own

    def needs(self, policy: Factory[ScalingPolicy], settings: Any) -> SignalNeeds:
        """Return which signals *policy* reads with these *settings*, besides those always there."""
        return needs(self._reads(policy, settings), self.signals)

    def families(self, signal: Factory[Signal], settings: Any) -> tuple[str, ...]:
        """Return the families of Triton's metrics that *signal* looks at line by line."""
        return self._reads(signal, settings)

    def _owner_of(self, factory: Any) -> str:
        for (kind, name), owner in self._owners.items():
            if self._offers[kind][name] is factory:
                return owner
        return "unknown"

    # -- hooks of the client side

    def cli(self, group: click.Group) -> tuple[PluginError, ...]:
        """Let every plugin add its commands to `tarn`; return what failed, a plugin each."""
        return tuple(
            PluginError(plugin, f"tarn_cli raised {type(error).__name__}: {error}")
            for plugin, error in self._tell("tarn_cli", commands=group)
        )

    def doctor_checks(
        self, spec: ClusterSpec, context: ClientContext
    ) -> tuple[tuple[str, Check], ...]:
        """Return every plugin's checks of the surroundings of *spec*, each with its plugin."""
        return offered(self._manager.hook.tarn_doctor_checks, spec, context)

    def doctor_probes(
        self, spec: ClusterSpec, context: ClientContext
    ) -> tuple[tuple[str, Check], ...]:
        """Return every plugin's checks that start something, each with its plugin."""
        return offered(self._manager.hook.tarn_doctor_probes, spec, context)

    def lint_rules(self) -> Mapping[str, LintRule]:
        """Return every plugin's rules for a model repository, by ``plugin:rule``.

        Raises:
            PluginError: A plugin failed while offering, or offered two rules of one name.
        """
        rules: dict[str, LintRule] = {}
        for implementation in self._manager.hook.tarn_lint_rules.get_hookimpls():
            owner, call = implementation.plugin_name, implementation.function
            try:
                offered = tuple(cast("Iterable[LintRule]", call()))
            except Exception as error:
                found = f"tarn_lint_rules raised {type(error).__name__}: {error}"
                raise PluginError(owner, found) from error
            for rule in offered:
                if rules.setdefault(f"{owner}:{rule.name}", rule) is not rule:
                    raise PluginError(owner, f"offers two lint rules named '{rule.name}'")
        return dict(sorted(rules.items()))

    def doctor_files(self) -> Mapping[str, FileCheck]:
        """Return how to examine files of other programs, by kind.

        Raises:
            PluginError: A plugin failed while offering, or two offer one kind.
        """
        kinds: dict[str, FileCheck] = {}
        hook = "tarn_doctor_files"
        for implementation in getattr(self._manager.hook, hook).get_hookimpls():
            owner = implementation.plugin_name
            for kind, check in self._offer(owner, hook, implementation.function).items():
                if kinds.setdefault(kind, check) is not check:
                    raise PluginError(
                        owner, f"offers to examine '{kind}', and so does another plugin"
                    )
        return dict(sorted(kinds.items()))

    # -- announcing; the announcer thread calls these, and counts what they raise

    def event(self, event: Event) -> None:
        """Tell that something happened."""
        self._announce("tarn_event", event=event)

    def instance_changed(self, before: Instance | None, after: Instance) -> None:
        """Tell that an instance was made or changed its state."""
        self._announce("tarn_instance_changed", before=before, after=after)

    def decision(self, decision: Decision) -> None:
        """Tell that the desired size changed."""
        self._announce("tarn_decision", decision=decision)

    def master_started(self, context: MasterContext) -> None:
        """Tell that a master took up its work."""
        self._announce("tarn_master_started", context=context)

    def master_stopping(self, context: MasterContext, outcome: str) -> None:
        """Tell that a master ends: ``left``, ``ended`` or ``superseded``."""
        self._announce("tarn_master_stopping", context=context, outcome=outcome)

    def _announce(self, hook: str, **arguments: object) -> None:
        """Tell every plugin, even after one raised; then raise one `PluginError` for all."""
        if failures := self._tell(hook, **arguments):
            name, first = failures[0]
            more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
            raise PluginError(
                name, f"{hook} raised {type(first).__name__}: {first}{more}"
            ) from first

    def _tell(self, hook: str, **arguments: object) -> list[tuple[str, Exception]]:
        """Call *hook* of every plugin, even after one raised; return who raised what."""
        failures: list[tuple[str, Exception]] = []
        for implementation in reversed(getattr(self._manager.hook, hook).get_hookimpls()):
            call = cast("Callable[..., object]", implementation.function)
            try:
                call(*(arguments[name] for name in implementation.argnames))
            except Exception as error:  # noqa: BLE001 (a stranger's code; told by the caller)
                failures.append((implementation.plugin_name, error))
        return failures


def _missing(name: str, found: str, next_step: str, code: str = "") -> ProviderMissingError:
    error = ProviderMissingError(name, found, next_step=next_step)
    error.where = ""  # the message says where; no plugin is to blame
    error.code = code or error.code
    return error


def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):  # the parent package is missing, or was removed
        return False
