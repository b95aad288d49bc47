"""Every hook. Hooks offer and announce; the Protocols in `tarn.interfaces` do the work.

Offering hooks are called once, when plugins are loaded, on the thread that loads them: they should
open nothing and import nothing heavy. An exception in one becomes a `PluginError` that names the
plugin. If two plugins offer the same name, that is a `PluginError` too.

Announcing hooks (`tarn_event` and those after it) run on the master's *announcer* thread, in order,
from a bounded queue: a slow plugin loses announcements (counted, and shown in ``/health``), but
never delays a tick. An exception is counted and logged with the plugin's name.

Each hook is called plugin by plugin, so that one that fails does not stop the others. For
``tarn_replay`` and ``tarn_support_bundle`` the first result counts. A hook wrapper,
``@hookimpl(wrapper=True)``, is therefore called around each plugin's hook in turn. Its ``yield``
returns a list with one result, or an empty one if the hook returns nothing; the wrapper returns
such a list, too. An exception of the wrapper names the wrapper's plugin.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

import attrs
import click
import pluggy

from tarn.domain import Choice, ClusterSpec, Decision, Epoch, Event, Instance, ProxyRule
from tarn.interfaces import (
    Affinity,
    Authorizer,
    Check,
    ClientContext,
    ClusterInspection,
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
from tarn.interfaces.lint import LintFinding, Repository

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
    """One provider that a plugin offers: its settings, and how to create it."""

    settings: type[Any]
    """An attrs class, from which validation, JSON Schema and `tarn plugins` are made. A relative
    path in a field of type ``Path``, or with ``metadata={"path": True}`` if it may also be a URI,
    is relative to the spec's folder."""
    create: Callable[[Any, MasterContext], T]
    """Called once in a master, if the spec chooses this provider."""
    summary: str
    """One line for `tarn plugins`."""
    requires: tuple[str, ...] = ()
    """Modules that it needs; a missing one is reported in one line."""
    extra: str = ""
    """The extra of the distribution with these modules."""
    reads: Callable[[Any], Iterable[str]] = lambda _settings: ()
    """For a scaling policy: the signals that it reads with these settings. Each is a built-in one,
    one that a plugin offers, or a metric of Triton (``nv_...``, a name with a colon, or any other
    as ``metric/NAME``); any other name is refused before a start. For a signal: the metrics of
    Triton that it reads in addition to those that are always read;
    `tarn.triton.metrics.TritonMetrics.each` returns their lines."""
    asks: Callable[[Any], Mapping[str, Choice]] = lambda _settings: {}
    """For a scaling policy that uses others: their choices, by the key of its options. Their
    options are checked like its own, their signals are read, and `MasterContext.policy` creates
    them."""
    looks: Callable[[Any], Iterable[Finding]] = lambda _settings: ()
    """For an authorizer: the problems on this machine that prevent it from working with these
    settings. Called before a start if the master will run on this machine; it only reads files."""


@attrs.frozen
class RuntimeFactory:
    """A runtime that a plugin offers: its client side, its master side, and its state."""

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
    """Write a master's files (``spec.yaml``, ``staged.json``, ``api_token``) into its directory,
    before the spec is read: (directory, environment). Not needed if the deployer wrote them."""
    host: Callable[[Mapping[str, str]], str] = lambda _environ: "127.0.0.1"
    """Name or address at which a master with this environment listens and is reached."""
    proxy: Callable[[Any, Path, Mapping[str, str]], ProxyRule | None] = lambda *_: None
    """Return the proxies that a master trusts to name users: (settings, its directory,
    environment). Called once, after ``runtime``; None: no proxies."""
    names: Callable[[Any, Path, Mapping[str, str]], UserDirectory | None] = lambda *_: None
    """Return the cluster's user directory: (settings, the master's directory, environment). Called
    once, after ``runtime``; None: use this machine's krb5.conf and groups."""


@attrs.frozen
class StorageFactory:
    """A storage that a plugin offers: the schemes it claims, and how to create it."""

    schemes: frozenset[str]
    """URI schemes; ``""`` claims plain paths, ``"*"`` every scheme that no other storage claims."""
    create: Callable[[], Storage]
    summary: str
    requires: tuple[str, ...] = ()
    extra: str = ""


@attrs.frozen
class SecretStoreFactory:
    """A store of secrets that a plugin offers; it is created in clients, never in a master."""

    settings: type[Any]
    """An attrs class, as for `Factory`."""
    create: Callable[[Any, ClientContext], SecretStore]
    """Called when secrets are needed; must not open the store before its first use."""
    summary: str
    requires: tuple[str, ...] = ()
    extra: str = ""
    names: Callable[[Any], Mapping[str, str]] = lambda _settings: {}
    """The variables of instances that these settings choose, by the name of a secret; for other
    names the rule of `tarn.cluster.given_secrets` holds."""


@attrs.frozen
class LintRule:
    """One rule of `tarn lint`."""

    name: str
    """In lower case; unique in its plugin."""
    summary: str
    """One line: what it finds."""
    check: Callable[[Repository], Iterable[LintFinding]]
    """Called once for a repository, in any process. It changes nothing, and reads files only by
    ``Repository.read``. An exception becomes a finding that names the rule."""


@attrs.frozen
class FileCheck:
    """How `tarn doctor` examines a file of one kind."""

    check: Callable[[str, bytes], Iterable[Finding]]
    """Called with the file's name, for ``Finding.where``, and its content; opens no other file. A
    `TarnError` means that the file cannot be examined."""
    summary: str
    """A few words on such a file."""


@hookspec
def tarn_runtimes() -> Mapping[str, RuntimeFactory]:
    """Offer runtimes, by the name written in ``runtime.use``."""
    raise NotImplementedError


@hookspec
def tarn_storages() -> Mapping[str, StorageFactory]:
    """Offer storages, which are chosen by the scheme of the URI."""
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
def tarn_affinities() -> Mapping[str, Factory[Affinity]]:
    """Offer affinities, by the name written in ``affinity.use``."""
    raise NotImplementedError


@hookspec
def tarn_scaling_policies() -> Mapping[str, Factory[ScalingPolicy]]:
    """Offer scaling policies, by the name written in ``scaling.use``."""
    raise NotImplementedError


@hookspec
def tarn_secret_stores() -> Mapping[str, SecretStoreFactory]:
    """Offer secret stores, by the name written in ``secrets[].use``.

    A client creates and reads them when it starts a cluster; a master gets only their values.
    """
    raise NotImplementedError


@hookspec
def tarn_signals() -> Mapping[str, Factory[Signal]]:
    """Offer signals, by the name that policies ask for.

    Only those that the policy in use ``reads`` are created, with their default settings. They are
    read on the policy's thread, once for each ``scaling.interval``, and share its deadline of five
    seconds. A signal that raises is unknown, with the exception as the reason.
    """
    raise NotImplementedError


@hookspec
def tarn_lint_rules() -> Iterable[LintRule]:
    """Offer rules for `tarn lint`, which runs every rule of every plugin. Called when it runs."""
    raise NotImplementedError


@hookspec
def tarn_doctor_checks(spec: ClusterSpec, context: ClientContext) -> Iterable[Check]:
    """Offer checks around *spec* that change and submit nothing.

    Called when `tarn doctor` runs; open what a check needs only in its ``look``. If the user has
    named no models yet, ``spec.models.repository`` is empty: do not offer checks that need one.
    """
    raise NotImplementedError


@hookspec
def tarn_doctor_probes(spec: ClusterSpec, context: ClientContext) -> Iterable[Check]:
    """Offer checks that start something briefly, such as a container on a node.

    Called only for `tarn doctor --probe`. A check must end what it starts.
    """
    raise NotImplementedError


@hookspec
def tarn_doctor_files() -> Mapping[str, FileCheck]:
    """Offer to examine files of other programs with ``tarn doctor --KIND FILE``, by kind.

    A kind is a word in lower case. Called when `tarn doctor` runs, and for its help.
    """
    raise NotImplementedError


@hookspec
def tarn_cli(commands: click.Group) -> None:
    """Add commands to `tarn`. Called for a verb that is not built in: import nothing heavy here.

    A command uses these entries of ``click.get_current_context().meta``:

    ``tarn.context`` is its `ClientContext`, whose ``progress`` prints to standard error.

    ``tarn.find`` is a function that returns the `tarn.follow.MasterSource` of a cluster, and raises
    ``NotFoundError`` if this user has no such cluster. Its arguments, each of which may be None,
    are: the cluster's name, by default the one that ``-c`` has; a function that returns the api
    token at each connection, by default the kept one; the `tarn.follow.KerberosTickets` for a
    master that accepts Kerberos; and a `tarn.follow.Trust` for HTTPS, by default the kept one.

    ``tarn.needs`` is a function of a spec's path that returns tarn's extras that the spec's master
    needs, and the name and options of its runtime. From the latter two, ``tarn.deployer`` makes the
    `tarn.interfaces.Deployer`, which may also be a `tarn.interfaces.Uploader`.

    ``tarn.inspect`` is a function that returns a `tarn.interfaces.ClusterInspection`. Its arguments
    are the cluster's name, as above, and the path of a ``tarn.yaml`` for a cluster whose spec is
    not kept any more, by default ``./tarn.yaml``. ``tarn.names`` is a function that returns the
    names of this user's clusters, for shell completion.

    Commands for load balancers belong to the group ``lb``; the first plugin that needs it adds it:
    ``commands.commands.setdefault("lb", click.Group("lb", help=...))``.
    """
    raise NotImplementedError


@hookspec(firstresult=True)
def tarn_support_bundle(
    subject: ClusterInspection,
    path: Path | None,
    log_mib: float,
    with_names: bool,  # noqa: FBT001 (pluggy passes arguments by position)
) -> Path:
    """Write diagnostics of a cluster into a file, without secrets; return its path.

    Called for `tarn.Cluster.support_bundle`, in a client process; the first result counts. *path*
    must not exist; None: choose a name in the working directory. *log_mib* limits the end of each
    log, *with_names* keeps the names of people and machines.
    """
    raise NotImplementedError


@hookspec(firstresult=True)
def tarn_replay(
    spec: ClusterSpec, plugins: Any, load: Any, policy: Choice, assumed: Mapping[str, object]
) -> Any:
    """Simulate a scaling policy under a load, for `Cluster.replay`.

    The first result counts. *plugins* has the policies and signals; *load* and *assumed* are the
    user's. The result is a `tarn.cluster.simulated.Run`.
    """
    raise NotImplementedError


@hookspec
def tarn_event(event: Event) -> None:
    """Called when an event happened, also when it happened again."""
    raise NotImplementedError


@hookspec
def tarn_instance_changed(before: Instance | None, after: Instance) -> None:
    """Called when an instance was created or changed its state."""
    raise NotImplementedError


@hookspec
def tarn_decision(decision: Decision) -> None:
    """Called when the desired size changed."""
    raise NotImplementedError


@hookspec
def tarn_master_started(context: MasterContext) -> None:
    """Called when a master began its work."""
    raise NotImplementedError


@hookspec
def tarn_master_stopping(context: MasterContext, outcome: str) -> None:
    """Called when a master ends: ``left``, ``ended`` or ``superseded``; it waits at most 100 ms."""
    raise NotImplementedError
