"""The providers of the loaded plugins, by name, and the calls of their hooks."""

import importlib.util
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast
from urllib.parse import urlsplit

import attrs
import click
import pluggy

from tarn.domain import Choice, ClusterSpec, Decision, Event, Instance
from tarn.domain.signals import SIGNALS
from tarn.errors import ConfigError, ConfigErrors, PluginError, ProviderMissingError
from tarn.hookspecs import (
    Factory,
    FileCheck,
    LintRule,
    RuntimeFactory,
    StorageFactory,
)
from tarn.interfaces import (
    Affinity,
    Authorizer,
    Check,
    ClientContext,
    ClusterInspection,
    Discovery,
    MasterContext,
    ScalingPolicy,
    Signal,
)
from tarn.plain import Problem, did_you_mean, join, structure
from tarn.plugins.boundary import HookCall, checks_offered, guarded, hook_calls
from tarn.plugins.kinds import KINDS, Provider, instead
from tarn.plugins.signals import SignalNeeds, needs, problems

__all__ = ["Plugins"]


class Plugins:
    """The providers of the loaded plugins, by kind and name. Immutable; made by `load`."""

    def __init__(self, manager: pluggy.PluginManager) -> None:
        self._manager = manager
        self._owners: dict[tuple[str, str], str] = {}
        self._listeners: dict[str, tuple[HookCall, ...]] = {}
        self._offers = {kind: self._gather(kind, hook) for kind, hook in KINDS.items()}
        self._claims = self._claimed_schemes()
        for name in SIGNALS.keys() & self.signals.keys():
            owner = self.owner("signal", name)
            raise PluginError(owner, f"offers the signal '{name}', which is built in")

    def _gather(self, kind: str, hook: str) -> Mapping[str, Any]:
        offers: dict[str, Any] = {}
        for call in hook_calls(self._manager, hook):
            owner = call.plugin
            for name, factory in self._offer(call).items():
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
    def _offer(call: HookCall) -> Mapping[str, Any]:
        try:
            offered = call()
        except Exception as error:
            raise call.fault(error) from error
        if not isinstance(offered, Mapping):
            found = f"{call.hook} returned a {type(offered).__name__}; a mapping of names is needed"
            raise PluginError(call.plugin, found)
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
    def affinities(self) -> Mapping[str, Factory[Affinity]]:
        """Affinities, by the name in ``affinity.use``."""
        return self._offers["affinity"]

    @property
    def scaling_policies(self) -> Mapping[str, Factory[ScalingPolicy]]:
        """Scaling policies, by the name in ``scaling.use``."""
        return self._offers["scaling"]

    @property
    def signals(self) -> Mapping[str, Factory[Signal]]:
        """Signals, by the name that policies ask for."""
        return self._offers["signal"]

    def offers(self, kind: str) -> Mapping[str, Provider]:
        """Return the factories of one kind (a key of `KINDS`) by name."""
        return self._offers[kind]

    def owner(self, kind: str, name: str) -> str:
        """Return the plugin that offers *name*."""
        return self._owners[kind, name]

    def names(self) -> tuple[str, ...]:
        """Return the names of the loaded plugins, sorted."""
        return tuple(sorted(name for name, _ in self._manager.list_name_plugin()))

    # -- choosing

    def choose(self, kind: str, name: str, where: str) -> Any:
        """Return the factory with this *name*.

        Args:
            kind: A key of `KINDS`: ``runtime``, ``discovery``, ….
            name: The name that the user wrote.
            where: The key at which it was written, for the message: ``scaling.use``.

        Raises:
            ProviderMissingError: No plugin offers the name, it comes with a later part, or the
                modules that it requires are not installed.
        """
        offered = self._offers[kind]
        if name in offered:
            self._demand_modules(where, f" = '{name}':", name, offered[name])
            return offered[name]
        known = instead(kind, name)
        listed = f"offered: {', '.join(offered) or 'nothing'}"
        found = known or f"no plugin offers it ({listed})"
        near = "" if known else did_you_mean(name, offered)
        text = f" = '{name}': {found}"
        raise _missing(name, where, text, near, "TARN-2004" if known else "")

    @staticmethod
    def _demand_modules(where: str, what: str, name: str, factory: Provider) -> None:
        missing = [module for module in factory.requires if not _installed(module)]
        if missing:
            bring = f"'tarn-orchestrator[{factory.extra}]'" if factory.extra else " ".join(missing)
            noun = "module" if len(missing) == 1 else "modules"
            found = f"{what} needs the {noun} {', '.join(missing)}, not installed here"
            raise _missing(name, where, found, f"pip install {bring}")

    def storage_for(self, uri: str) -> StorageFactory:
        """Return the storage that claims the scheme of *uri*, which is ``""`` for a path.

        Raises:
            ProviderMissingError: No storage claims it, or its modules are not installed.
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
            raise _missing(scheme or "path", "", found, near)
        factory = self.storages[name]
        self._demand_modules("", f"storage for {shown}", name, factory)
        return factory

    def problems(
        self, factory: Any, options: Mapping[str, object], where: str
    ) -> tuple[Problem, ...]:
        """Return the problems of *options* for this provider; empty if they are valid."""
        return self._structured(factory, options, where)[1]

    def settings(self, factory: Any, options: Mapping[str, object], where: str) -> Any:
        """Return the provider's settings made from the user's *options*.

        Raises:
            ConfigErrors: Every problem of *options*; paths begin with *where*.
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
            found = (*self._unreadable(own, where), *asked)
        return settings, found

    def _wrong_asked(self, factory: Factory[Any], settings: Any, where: str) -> Iterator[Problem]:
        """Yield the problems of the policies that a policy uses."""
        for key, choice in self._call(factory, "asks", settings).items():
            at = join(where, key)
            try:
                asked = self.choose("scaling", choice.use, join(at, "use"))
            except ProviderMissingError as error:
                path = join(at, "use")
                yield Problem(path, error.code, error.of_choice, error.right, error.next_step)
            else:
                yield from self.problems(asked, choice.options, join(at, "options"))

    def _unreadable(self, names: tuple[str, ...], where: str) -> Iterator[Problem]:
        yield from problems(names, self.signals, where)
        for name in needs(names, self.signals).plugins:
            try:
                self._demand_modules("", f"the signal '{name}'", name, self.signals[name])
            except ProviderMissingError as error:
                yield Problem(where, error.code, f": {error.found}", next_step=error.next_step)

    def _call(self, factory: Factory[Any], what: str, settings: Any) -> Any:
        """Return the result of the factory's *what*; an exception there names its plugin."""
        try:
            said = getattr(factory, what)(settings)
            return dict(said) if isinstance(said, Mapping) else tuple(said)
        except Exception as error:
            found = f"{what}() raised {type(error).__name__}: {error}"
            raise PluginError(self._owner_of(factory), found) from error

    def _reads(self, factory: Factory[Any], settings: Any) -> tuple[str, ...]:
        """Return the signals of the provider, and of the policies that it uses."""
        own: tuple[str, ...] = self._call(factory, "reads", settings)
        for key, choice in self._call(factory, "asks", settings).items():
            asked = self.scaling_policies[choice.use]
            own += self._reads(asked, self.settings(asked, choice.options, join(key, "options")))
        return own

    def needs(self, policy: Factory[ScalingPolicy], settings: Any) -> SignalNeeds:
        """Return the signals that *policy* reads with these *settings*."""
        return needs(self._reads(policy, settings), self.signals)

    def families(self, signal: Factory[Signal], settings: Any) -> tuple[str, ...]:
        """Return the families of Triton's metrics whose lines *signal* reads."""
        return self._reads(signal, settings)

    def _owner_of(self, factory: Any) -> str:
        for (kind, name), owner in self._owners.items():
            if self._offers[kind][name] is factory:
                return owner
        return "unknown"

    # -- hooks of the client side

    def cli(self, group: click.Group) -> tuple[PluginError, ...]:
        """Let every plugin add its commands to `tarn`; return the errors, one for each plugin."""
        return tuple(self._tell("tarn_cli", commands=group))

    def support_bundle(
        self, subject: ClusterInspection, path: Path | None, log_mib: float, *, with_names: bool
    ) -> Path:
        """Let a plugin write a support bundle, and return its path.

        Raises:
            ProviderMissingError: No plugin writes support bundles.
            TarnError: The bundle cannot be written, or would contain a secret.
        """
        written: Path | None = self._manager.hook.tarn_support_bundle(
            subject=subject, path=path, log_mib=log_mib, with_names=with_names
        )
        if written is None:
            found = "`cli_support_bundle`, the plugin that makes it, is switched off"
            raise ProviderMissingError("support-bundle", found)
        return written

    def replay(
        self, spec: ClusterSpec, load: Any, policy: Choice, assumed: Mapping[str, object]
    ) -> Any:
        """Return the simulation of a policy under a load, which a plugin makes.

        Raises:
            ConfigError: The load, the options or the assumptions are invalid.
            ProviderMissingError: There is no such policy, or no plugin that simulates.
        """
        run = self._manager.hook.tarn_replay(
            spec=spec, plugins=self, load=load, policy=policy, assumed=assumed
        )
        if run is None:
            found = "no plugin simulates: `cli_simulate`, which comes with TARN, is switched off"
            raise ProviderMissingError("simulate", found)
        return run

    def doctor_checks(
        self, spec: ClusterSpec, context: ClientContext
    ) -> tuple[tuple[str, Check], ...]:
        """Return (plugin, check) of every plugin's checks around *spec*."""
        return checks_offered(hook_calls(self._manager, "tarn_doctor_checks"), spec, context)

    def doctor_probes(
        self, spec: ClusterSpec, context: ClientContext
    ) -> tuple[tuple[str, Check], ...]:
        """Return (plugin, check) of every plugin's checks that start something."""
        return checks_offered(hook_calls(self._manager, "tarn_doctor_probes"), spec, context)

    def lint_rules(self) -> Mapping[str, LintRule]:
        """Return every plugin's rules for a model repository, by ``plugin:rule``.

        Raises:
            PluginError: A plugin raised in its hook, or offers two rules with the same name.
        """
        rules: dict[str, LintRule] = {}
        for call in hook_calls(self._manager, "tarn_lint_rules"):
            try:
                offered = tuple(cast("Iterable[LintRule]", call()))
            except Exception as error:
                raise call.fault(error) from error
            for rule in offered:
                if rules.setdefault(f"{call.plugin}:{rule.name}", rule) is not rule:
                    raise PluginError(call.plugin, f"offers two lint rules named '{rule.name}'")
        return dict(sorted(rules.items()))

    def doctor_files(self) -> Mapping[str, FileCheck]:
        """Return how to examine files of other programs, by kind.

        Raises:
            PluginError: A plugin raised in its hook, or two offer the same kind.
        """
        kinds: dict[str, FileCheck] = {}
        for call in hook_calls(self._manager, "tarn_doctor_files"):
            for kind, check in self._offer(call).items():
                if kinds.setdefault(kind, check) is not check:
                    found = f"offers to examine '{kind}', and so does another plugin"
                    raise PluginError(call.plugin, found)
        return dict(sorted(kinds.items()))

    # -- announcements; the announcer thread makes them, and counts the exceptions

    def event(self, event: Event) -> None:
        """Announce an event."""
        self._announce("tarn_event", event=event)

    def instance_changed(self, before: Instance | None, after: Instance) -> None:
        """Announce that an instance was created or changed its state."""
        self._announce("tarn_instance_changed", before=before, after=after)

    def decision(self, decision: Decision) -> None:
        """Announce that the desired size changed."""
        self._announce("tarn_decision", decision=decision)

    def master_started(self, context: MasterContext) -> None:
        """Announce that a master began its work."""
        self._announce("tarn_master_started", context=context)

    def master_stopping(self, context: MasterContext, outcome: str) -> None:
        """Announce that a master ends: ``left``, ``ended`` or ``superseded``."""
        self._announce("tarn_master_stopping", context=context, outcome=outcome)

    def _announce(self, hook: str, **arguments: object) -> None:
        """Call *hook* of every plugin; then raise one `PluginError` for all that raised."""
        if failures := self._tell(hook, **arguments):
            first = failures[0]
            if len(failures) > 1:
                first.found += f" (and {len(failures) - 1} more)"
            raise first

    def _tell(self, hook: str, **arguments: object) -> list[PluginError]:
        """Call *hook* of every plugin, even after one raised; return the errors."""
        if hook not in self._listeners:
            self._listeners[hook] = hook_calls(self._manager, hook)[::-1]
        failures = []
        for call in self._listeners[hook]:
            try:
                call(**arguments)
            except Exception as error:  # noqa: BLE001 (a plugin's code; the caller reports it)
                fault = call.fault(error)
                fault.next_step = ""  # the caller continues the message
                failures.append(fault)
        return failures


def _missing(
    name: str, where: str, text: str, next_step: str, code: str = ""
) -> ProviderMissingError:
    """Return the error that the provider *name*, written at the key *where*, is missing."""
    error = ProviderMissingError(name, f"{where}{text}", next_step=next_step)
    error.of_choice = text
    error.where = ""  # instead of the plugin: the message begins with the key
    error.code = code or error.code
    return error


def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):  # the parent package is missing, or was removed
        return False
