"""`tarn lb haproxy`: the agent next to a HAProxy."""

import contextlib
import signal
import socket as sockets
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click
from click.core import ParameterSource

from tarn.errors import (
    ConfigError,
    DiscoveryError,
    NotAuthorizedError,
    ProviderMissingError,
    UnreachableError,
)
from tarn.follow import Agent, KerberosTickets, MasterSource, Trust
from tarn.interfaces import ClientContext
from tarn.zk.nodes import INSTANCES, check_path
from tarn_plugins.discovery.haproxy.config_command import config
from tarn_plugins.discovery.haproxy.masters import (
    AtUrl,
    InZooKeeper,
    Token,
    kept_token,
    only_cluster,
    tickets,
    trust,
)
from tarn_plugins.discovery.haproxy.settings import HaproxyTarget, check_name

if TYPE_CHECKING:
    from tarn.zk.session import ZooKeeperSession

__all__ = ["haproxy"]

ANSWER_WITHIN_S = 2.0  # as for the commands in `servers`
# haproxy.cfg has no such backend, or no placeholder servers: the user must change the configuration
UNFIT = frozenset({"TARN-3305", "TARN-3308"})


@attrs.frozen
class _MasterAddress:
    """The options that say where the master is."""

    cluster: str | None
    url: str | None
    token_file: Path | None
    ensemble: str | None
    path: str
    tickets: KerberosTickets | None
    """Tickets by a keytab; None: the api token, or the user's own ticket."""
    trust: Trust | None
    """Files given as options; None: those kept with the cluster, or the system's authorities."""


def _name(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> str:
    name = sockets.gethostname() if value is None else value
    try:
        return check_name(name)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "-c",
    "--cluster",
    metavar="NAME",
    help="Which cluster. [default: the name in ./tarn.yaml, else the only one]",
)
@click.option(
    "--socket",
    metavar="PATH",
    type=click.Path(path_type=Path),
    help="Socket of HAProxy's Runtime API, 'level admin'. Required.",
)
@click.option(
    "--name",
    metavar="NAME",
    callback=_name,
    help="Name of this agent, as discovery.options.followers lists it. [default: the host's name]",
)
@click.option(
    "--backend",
    metavar="NAME",
    default="triton_backend",
    show_default=True,
    help="The backend for HTTP.",
)
@click.option(
    "--grpc-backend", metavar="NAME", default="", help="The backend for gRPC. [default: none]"
)
@click.option(
    "--slots",
    metavar="PREFIX",
    default="",
    help="Use the placeholder servers with this name prefix. [default: servers are added]",
)
@click.option(
    "--authz",
    is_flag=True,
    help="Also point HAProxy's authorization requests at the master: for a file of `config "
    "--authz`.",
)
@click.option("--url", metavar="URL", help="Where the master is, like http://gpu1:40001.")
@click.option(
    "--token-file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="File with the api token. [default: api_token in $CREDENTIALS_DIRECTORY, else the one "
    "kept with the cluster; with --url or --zookeeper: TARN_TOKEN]",
)
@click.option(
    "--keytab",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Authenticate with Kerberos, with the key in this file. [default: the api token]",
)
@click.option(
    "--principal", metavar="NAME", help="The principal of --keytab to use. [default: the first one]"
)
@click.option(
    "--ca",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="PEM file with the authority of a master at an https URL. [default: the one kept with "
    "the cluster, else the system's authorities]",
)
@click.option(
    "--cert",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="PEM file with the client certificate of this agent.",
)
@click.option(
    "--key",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="PEM file with its private key. [default: it is in --cert]",
)
@click.option("--zookeeper", metavar="ENSEMBLE", help="Find the master there: zk1:2181,zk2:2181.")
@click.option(
    "--zookeeper-path",
    metavar="PATH",
    default=INSTANCES,
    show_default=True,
    help="Where the instances are published.",
)
@click.pass_context
def haproxy(ctx: click.Context, /, socket: Path | None, name: str, **options: Any) -> None:
    """Keep the servers of a HAProxy in step with a cluster.

    Runs next to HAProxy, follows the cluster's master, and acknowledges each change: a drain waits
    for that. Without a master HAProxy keeps its servers. SIGTERM ends the agent, and leaves HAProxy
    as it is.
    """
    if ctx.invoked_subcommand is not None:
        ctx.default_map = {"config": _given(ctx)}
        return
    if socket is None:
        raise click.UsageError("Missing option '--socket': HAProxy's Runtime API.", ctx)
    if options["url"] and options["zookeeper"]:
        raise click.UsageError("--url and --zookeeper both say where the master is.", ctx)
    where = _MasterAddress(
        options["cluster"],
        options["url"],
        options["token_file"],
        options["zookeeper"],
        options["zookeeper_path"],
        tickets(ctx, options["keytab"], options["principal"]),
        trust(ctx, options["ca"], options["cert"], options["key"]),
    )
    backends = {key: options[key] for key in ("backend", "grpc_backend", "slots")}
    context: ClientContext = ctx.meta["tarn.context"]
    with _source(ctx, where, context) as source:
        try:
            target = HaproxyTarget(socket, **backends, fleet=source.name)
        except ValueError as error:
            raise ConfigError(str(error)) from error
        with (
            _asking(source, target, context, wanted=options["authz"]) as noted,
            _answering(source, target, context),
        ):
            _follow(noted, target, name, context)


haproxy.add_command(config)


def _given(ctx: click.Context) -> dict[str, Any]:
    # the options before the verb `config` that mean the same to it are its defaults
    same = {field: field for field in ("cluster", "socket", "backend", "grpc_backend", "authz")}
    return {
        field: ctx.params[option]
        for option, field in {**same, "slots": "slot_prefix"}.items()
        if ctx.get_parameter_source(option) is ParameterSource.COMMANDLINE
    }


@contextlib.contextmanager
def _source(
    ctx: click.Context, where: _MasterAddress, context: ClientContext
) -> Iterator[MasterSource]:
    """Yield the source that finds the master."""
    named = bool(where.url or where.ensemble)
    token: Token | None
    if where.tickets is not None:
        where.tickets.check()
        token = lambda: None  # noqa: E731 (the ticket takes the place of a token)
    else:
        token = kept_token(where.token_file, context.environ, variable=named)
    if where.trust is not None:
        where.trust.context()  # reports what is wrong with its files before anything starts
    proof = where.tickets, where.trust
    if where.ensemble:
        check_path(where.path)
        session = _session(where.ensemble)
        try:
            with _starting():
                cluster = where.cluster or only_cluster(session, where.path)
            yield InZooKeeper(session, where.path, cluster, token, *proof)
        finally:
            session.close()
    elif where.url:
        found = AtUrl(where.url, where.cluster or "", token, *proof)
        if not found.cluster:  # follow the cluster that answers now, and no other one later
            with found.open() as api:
                found = attrs.evolve(found, cluster=api.cluster())
        yield found
    else:
        yield ctx.meta["tarn.find"](where.cluster, token, *proof)


def _session(ensemble: str) -> "ZooKeeperSession":
    try:
        from tarn.zk.session import ZooKeeperSession  # noqa: PLC0415 (needs an extra)
    except ImportError as error:
        raise ProviderMissingError(
            "discovery_haproxy",
            f"finding a master through ZooKeeper needs the module kazoo, not usable here ({error})",
            next_step="pip install 'tarn-orchestrator[zookeeper]'",
        ) from error
    return ZooKeeperSession(ensemble)


@contextlib.contextmanager
def _asking(
    source: MasterSource, target: HaproxyTarget, context: ClientContext, *, wanted: bool
) -> Iterator[MasterSource]:
    """Yield *source*; if *wanted*, HAProxy's authorization requests follow the master."""
    if not wanted:
        yield source
        return
    try:
        from tarn_plugins.discovery.haproxy.master_server import (  # noqa: PLC0415
            MasterServer,
            NotingSource,
        )
        from tarn_plugins.discovery.haproxy.runtime_api import RuntimeApi  # noqa: PLC0415
    except ImportError as error:
        raise _lacks(error) from error
    api = RuntimeApi(target.socket, ANSWER_WITHIN_S, "haproxy")
    server = MasterServer(api, context.clock, _say)
    with _starting():
        server.check()
    server.start()
    try:
        yield NotingSource(source, server.note)
    finally:
        server.close()


@contextlib.contextmanager
def _answering(
    source: MasterSource, target: HaproxyTarget, context: ClientContext
) -> Iterator[None]:
    """Keep HAProxy's way to the master's answers for the whole fleet."""
    try:
        from tarn_plugins.discovery.haproxy.answers_keeper import AnswersKeeper  # noqa: PLC0415
        from tarn_plugins.discovery.haproxy.runtime_api import RuntimeApi  # noqa: PLC0415
    except ImportError as error:
        raise _lacks(error) from error
    api = RuntimeApi(target.socket, ANSWER_WITHIN_S, "haproxy")
    keeper = AnswersKeeper(api, source, context.clock, _say)
    keeper.look()  # so that these answers are there no later than the first instance
    keeper.start()
    try:
        yield
    finally:
        keeper.close()


def _follow(source: MasterSource, target: HaproxyTarget, name: str, context: ClientContext) -> None:
    """Run the agent until a signal ends it.

    Raises:
        UnreachableError: HAProxy cannot be reached, or cannot be driven.
        ConfigError: It has no such backend, or not enough placeholder servers.
        TarnError: There is no master, or it denies access.
    """
    try:  # not at the top: `config` works without haproxyadmin
        from tarn_plugins.discovery.haproxy.servers import (  # noqa: PLC0415
            DemandProbe,
            HAProxyServers,
        )
    except ImportError as error:
        raise _lacks(error) from error
    news, stop = threading.Event(), threading.Event()
    servers = HAProxyServers(target, context.clock, news.set, name)
    try:
        agent = Agent(
            source,
            servers,
            name,
            context.clock,
            news=news,
            demand=DemandProbe(servers.statistics, context.clock),
            affinity=servers.follow,
            say=_say,
        )
        with _starting():
            agent.check()
        with _ended_by_signals(stop):
            agent.run(stop)
    finally:
        servers.close(withdraw=False)


def _lacks(error: ImportError) -> ProviderMissingError:
    return ProviderMissingError(
        "discovery_haproxy",
        f"driving HAProxy needs the module haproxyadmin, not usable here ({error})",
        next_step="pip install 'tarn-orchestrator[haproxy]'",
    )


@contextlib.contextmanager
def _starting() -> Iterator[None]:
    """Raise the errors of a start with their own exit codes and next steps."""
    try:
        yield
    except NotAuthorizedError as error:
        step = error.next_step
        if error.principal == "anonymous" and not error.negotiates:
            step = (
                "The api token is missing or wrong: give it with --token-file, or with --url or "
                "--zookeeper in TARN_TOKEN; `tarn up` shows which file holds it. If the master "
                "takes Kerberos, authenticate with --keytab."
            )
        raise NotAuthorizedError(
            error.principal,
            error.action,
            error.model,
            next_step=step,
            negotiates=error.negotiates,
        ) from error
    except DiscoveryError as error:
        kind = ConfigError if error.code in UNFIT else UnreachableError
        raise kind(
            error.found,
            code=error.code,
            where=error.where,
            right=error.right,
            next_step=error.next_step,
        ) from error


def _say(line: str) -> None:
    with contextlib.suppress(OSError):  # the reader may have left; the agent goes on
        click.echo(line, err=True)


@contextlib.contextmanager
def _ended_by_signals(stop: threading.Event) -> Iterator[None]:
    """Set *stop* at SIGTERM and SIGINT; the main thread must not wait for *stop*."""

    # The handler interrupts the main thread anywhere, also inside `stop.wait`, which holds the lock
    # that `stop.set` needs.
    def end(_number: int, _frame: object) -> None:
        stop.set()

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
