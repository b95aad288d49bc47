"""Every hook. Hooks find and announce; the Protocols in `tarn.interfaces` do the work.

The offering hooks are called once, when plugins are loaded, on the thread that loads them: open
nothing and import nothing heavy there. An exception in one is a `PluginError` that names the
plugin. Two plugins that offer one name is a `PluginError` too.

The announcing hooks (`tarn_event` and those after it) run on the master's *announcer* thread, in
order, from a bounded queue: a slow plugin loses announcements (counted, and shown in ``/health``),
and never slows a tick. An exception there is counted and logged with the plugin's name.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

import attrs
import click
import pluggy

from tarn.domain import Choice, ClusterSpec, Decision, Epoch, Event, Instance, ProxyRule
from tarn.domain.lint import LintFinding, Repository
from tarn.interfaces import (
    Authorizer,
    CeilingSource,
    Check,
    ClientContext,
    Deployer,
    Discovery,
    Finding,
    MasterContext,
    Runtime,
    RuntimeCapabilities,
    ScalingPolicy,
    SecretStore,
    Signal,
    StateStore,
    Storage,
    UserDirectory,
)

__all__ = [
    "Factory",
    "FileCheck",
    "LintRule",
    "RuntimeFactory",
    "SecretStoreFactory",
    "StorageFactory",
    "hookimpl",
    "hookspec",
]

hookspec = pluggy.HookspecMarker("tarn")
hookimpl = pluggy.HookimplMarker("tarn")
T = TypeVar("T")


@attrs.frozen
class Factory(Generic[T]):
    """What a plugin offers under one name: its settings, and how to make the provider."""

    settings: type[Any]
    """An attrs class: validation, JSON Schema and `tarn plugins` come from it. What is written
    relative in a field of the type ``Path``, or with ``metadata={"path": True}`` where it may be a
    URI too, starts at the spec's folder."""
    create: Callable[[Any, MasterContext], T]
    """Called once in a master, only for the chosen name."""
    summary: str
    """One line for `tarn plugins`."""
    requires: tuple[str, ...] = ()
    """Modules it needs; a missing one becomes one clear line."""
    extra: str = ""
    """The extra of the distribution that brings them."""
    reads: Callable[[Any], Iterable[str]] = lambda _settings: ()
    """Of a scaling policy: the signals that it looks at with these settings. Each is one that is
    always there, one that a plugin offers, or the name of a metric of Triton (``nv_...``, one with
    a colon, any other as ``metric/NAME``); a name that is none of these is refused before anything
    starts. Of a signal: the metrics of Triton that it reads besides those that are always read;
    it finds each of their lines by name and labels: `tarn.triton.metrics.TritonMetrics.each`."""
    asks: Callable[[Any], Mapping[str, Choice]] = lambda _settings: {}
    """Of a scaling policy that asks others: each with the key of its options at which it is chosen.
    Their options are checked like its own, and what they read is read; `MasterContext.policy` makes
    them."""
    looks: Callable[[Any], Iterable[Finding]] = lambda _settings: ()
    """Of an authorizer: what on this machine keeps it from working with these settings. Asked
    before a start whose master will run on the same machine; reads files, and nothing else."""


@attrs.frozen
class RuntimeFactory:
    """What a runtime plugin offers: its client side, its master side, and its memory."""

    settings: type[Any]
    deployer: Callable[[Any, ClientContext], Deployer]
    runtime: Callable[[Any, MasterContext], Runtime]
    state_store: Callable[[Any, MasterContext], StateStore]
    epoch: Callable[[Any, Path, Mapping[str, str]], Epoch]
    """Claim the epoch of a starting master: (settings, its directory, environment)."""
    capabilities: RuntimeCapabilities
    summary: str
    requires: tuple[str, ...] = ()
    extra: str = ""
    unpack: Callable[[Path, Mapping[str, str]], None] = lambda _directory, _environ: None
    """Bring a master's files (``spec.yaml``, ``staged.json``, ``api_token``) into its directory,
    before the spec is read: (directory, environment). Nothing where a deployer put them there."""
    host: Callable[[Mapping[str, str]], str] = lambda _environ: "127.0.0.1"
    """Name or address at which a master with this environment listens, and is reached."""
    proxy: Callable[[Any, Path, Mapping[str, str]], ProxyRule | None] = lambda *_: None
    """Say which proxies a master trusts to name users: (settings, its directory, environment).
    Asked once, after ``runtime``; None: none."""
    names: Callable[[Any, Path, Mapping[str, str]], UserDirectory | None] = lambda *_: None
    """Say how the cluster calls people: (settings, the master's directory, environment). Asked
    once, after ``runtime``; None: by this machine's krb5.conf, and its list of groups."""


@attrs.frozen
class StorageFactory:
    """What a storage plugin offers: the schemes it claims, and how to make it."""

    schemes: frozenset[str]
    """URI schemes; ``""`` claims a bare path, ``"*"`` every scheme that no other storage claims."""
    create: Callable[[], Storage]
    summary: str
    requires: tuple[str, ...] = ()
    extra: str = ""


@attrs.frozen
class SecretStoreFactory:
    """What a plugin offers as a store of secrets; it is made in a client, never in a master."""

    settings: type[Any]
    """An attrs class, as for `Factory`."""
    create: Callable[[Any, ClientContext], SecretStore]
    """Called when secrets are needed; opens nothing before the store is asked."""
    summary: str
    requires: tuple[str, ...] = ()
    extra: str = ""
    names: Callable[[Any], Mapping[str, str]] = lambda _settings: {}
    """Which environment variable an instance gets from a secret, by the secret's name, where these
    settings say so; for any other name the rule of `tarn.domain.given_secrets` holds."""


@attrs.frozen
class LintRule:
    """One rule of `tarn lint`."""

    name: str
    """In lower case; unique in its plugin."""
    summary: str
    """One line: what it finds."""
    check: Callable[[Repository], Iterable[LintFinding]]
    """Called once for a repository, in any process; changes nothing, and opens no file but through
    ``Repository.read``. An exception becomes a finding that names the rule."""


@attrs.frozen
class FileCheck:
    """How `tarn doctor` examines a file of one kind."""

    check: Callable[[str, bytes], Iterable[Finding]]
    """Called with the file's name, for ``Finding.where``, and its content; opens nothing else. A
    `TarnError` says that it cannot be examined at all."""
    summary: str
    """What such a file is, in a few words."""


@hookspec
def tarn_runtimes() -> Mapping[str, RuntimeFactory]:
    """Offer runtimes, by the name written in ``runtime.use``."""
    raise NotImplementedError


@hookspec
def tarn_storages() -> Mapping[str, StorageFactory]:
    """Offer storages; the URI's scheme chooses, so no spec names one."""
    raise NotImplementedError


@hookspec
def tarn_discoveries() -> Mapping[str, Factory[Discovery]]:
    """Offer discoveries, by the name written in ``discovery[].use``."""
    raise NotImplementedError


@hookspec
def tarn_authorizers() -> Mapping[str, Factory[Authorizer]]:
    """Offer authorizers, by the name written in ``authorizer.use``."""
    raise NotImplementedError


@hookspec
def tarn_scaling_policies() -> Mapping[str, Factory[ScalingPolicy]]:
    """Offer scaling policies, by the name written in ``scaling.use``."""
    raise NotImplementedError


@hookspec
def tarn_secret_stores() -> Mapping[str, SecretStoreFactory]:
    """Offer secret stores, by the name written in ``secrets[].use``.

    A client makes and reads them, when a cluster is started: a master gets values only.
    """
    raise NotImplementedError


@hookspec
def tarn_signals() -> Mapping[str, Factory[Signal]]:
    """Offer signals, by the name that policies ask for.

    Only those that the policy in use ``reads`` are made, with their default settings. They are read
    on the policy's thread, once for each ``scaling.interval``, and their time counts among its five
    seconds. One that raises is Unknown, with what it raised.
    """
    raise NotImplementedError


@hookspec
def tarn_ceilings() -> Mapping[str, Factory[CeilingSource]]:
    """Offer sources of a farm's ceiling, by the farm's type."""
    raise NotImplementedError


@hookspec
def tarn_lint_rules() -> Iterable[LintRule]:
    """Offer rules for `tarn lint`; every rule of every plugin is asked. Called when it runs."""
    raise NotImplementedError


@hookspec
def tarn_doctor_checks(spec: ClusterSpec, context: ClientContext) -> Iterable[Check]:
    """Offer checks of the surroundings of *spec*: they look, and submit nothing.

    Called when `tarn doctor` is used; what a check needs is opened when it looks. Where the user
    named no models yet, ``spec.models.repository`` is empty: what needs one is not offered.
    """
    raise NotImplementedError


@hookspec
def tarn_doctor_probes(spec: ClusterSpec, context: ClientContext) -> Iterable[Check]:
    """Offer checks that start something for a moment, such as a container on a node.

    Asked and called only for `tarn doctor --probe`. What they start ends with them.
    """
    raise NotImplementedError


@hookspec
def tarn_doctor_files() -> Mapping[str, FileCheck]:
    """Offer to examine files of other programs, by kind; ``tarn doctor --KIND FILE`` does it.

    A kind is a word in lower case. Called when `tarn doctor` is used, and for its help.
    """
    raise NotImplementedError


@hookspec
def tarn_cli(commands: click.Group) -> None:
    """Add commands to `tarn`. Called for a verb that is not built in: import nothing heavy here.

    A command finds its `ClientContext` in ``click.get_current_context().meta["tarn.context"]``; its
    ``progress`` talks on standard error. In ``meta["tarn.find"]`` is who finds masters: a function
    of a cluster's name (None: the one that ``-c`` means by default), and of where its api token
    comes from, if not from what is kept with the cluster (asked at each connection), and of whose
    `tarn.follow.KerberosTickets` are shown where a master takes Kerberos, and of a
    `tarn.follow.Trust` for one that speaks HTTPS, if not what is kept with the cluster. It returns
    a `tarn.follow.MasterSource`, and raises ``NotFoundError`` where this user has no such cluster.

    ``meta["tarn.needs"]`` is a function of a spec's path: it returns the extras of tarn that the
    spec's master needs, and name and options of its runtime. Of these ``meta["tarn.deployer"]``
    makes the `tarn.interfaces.Deployer`, which may be a `tarn.interfaces.Uploader` too.

    Commands for load balancers belong to the group ``lb``; the first plugin that needs it adds it:
    ``commands.commands.setdefault("lb", click.Group("lb", help=...))``.
    """
    raise NotImplementedError


@hookspec
def tarn_event(event: Event) -> None:
    """Hear that something happened (first time, or once more)."""
    raise NotImplementedError


@hookspec
def tarn_instance_changed(before: Instance | None, after: Instance) -> None:
    """Hear that an instance was made or changed its state."""
    raise NotImplementedError


@hookspec
def tarn_decision(decision: Decision) -> None:
    """Hear that the desired size changed."""
    raise NotImplementedError


@hookspec
def tarn_master_started(context: MasterContext) -> None:
    """Hear that a master took up its work."""
    raise NotImplementedError


@hookspec
def tarn_master_stopping(context: MasterContext, outcome: str) -> None:
    """Hear that a master ends: ``left``, ``ended`` or ``superseded``. At most 100 ms are waited."""
    raise NotImplementedError
