"""`tarn lb haproxy config`: print a haproxy.cfg, or write one that authorizes requests."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import attrs
import click
from click.core import ParameterSource

from tarn.errors import ConfigError
from tarn_plugins.discovery.haproxy.authz import LUA, Authz, lua_text
from tarn_plugins.discovery.haproxy.configuration import LOGS, HaproxyCfgSettings, render
from tarn_plugins.discovery.haproxy.keyed_routing import DOOR_LUA, KeyedRouting, door_text

__all__ = ["config"]

F = TypeVar("F", bound=Callable[..., Any])
_PLAIN = HaproxyCfgSettings()
_GUARDED = Authz(lua=f"/etc/haproxy/{LUA}")
_KEYED = KeyedRouting(door_lua=f"/etc/haproxy/{DOOR_LUA}")
CFG = "haproxy.cfg"


def _option(
    field: str,
    help_: str,
    *names: str,
    of: HaproxyCfgSettings | Authz | KeyedRouting = _PLAIN,
    **more: Any,
) -> Callable[[F], F]:
    """Return the option for *field*, whose default is that of *of*."""
    names = names or (f"--{field.replace('_', '-')}",)
    default = getattr(of, field)
    how = {"default": default, "show_default": default not in ("", ()), "help": help_, **more}
    return click.option(*names, field, **how)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@_option("cluster", "Name of the cluster, for the comments.", "-c", "--cluster", metavar="NAME")
@_option("address", "Address where HAProxy listens; '*': all addresses.", metavar="IP")
@_option("http_port", "HAProxy's port for HTTP.")
@_option("grpc_port", "HAProxy's port for gRPC; 0: none.")
@_option("stats_port", "Port of its statistics, at 127.0.0.1; 0: none.")
@_option("socket", "Socket of its Runtime API.", metavar="PATH")
@_option("backend", "Name of the backend for HTTP.", metavar="NAME")
@_option("grpc_backend", "Name of the backend for gRPC.", metavar="NAME")
@_option("slots", "Placeholder servers in each backend; 0: servers are added and deleted.")
@_option("slot_prefix", "Name prefix of the placeholder servers.", metavar="PREFIX")
@_option("certificate", "PEM file with chain and key, for TLS on both ports.", metavar="FILE")
@_option("longest_s", "Seconds that an inference may take.", "--longest", metavar="SECONDS")
@_option("log", "Where to send the log.", type=click.Choice(LOGS))
@_option("user", "Account that HAProxy runs as; '': the user who starts it.", metavar="NAME")
@_option("group", "Group that may use the socket; '': none.", metavar="NAME")
@_option(
    "answers",
    "Let the master answer statistics, the index, loads and settings for the whole fleet.",
    "--answers/--no-answers",
)
@click.option("--authz", is_flag=True, help="Ask the master to authorize each request.")
@_option(
    "knox",
    "With --authz: address or network of Knox; may be repeated.",
    of=_GUARDED,
    multiple=True,
    metavar="ADDRESS",
)
@_option(
    "client_ca",
    "With --authz: PEM file with the authority of client certificates; adds a port for clients "
    "that have one.",
    of=_GUARDED,
    metavar="FILE",
)
@_option("certificate_port", "With --client-ca: that port.", of=_GUARDED)
@_option(
    "grpc_all_models",
    "With --authz and --grpc-port: a right to the model '*' allows all models over gRPC.",
    of=_GUARDED,
    is_flag=True,
)
@_option(
    "master",
    "With --authz: the master's first address; without it the agent sets it.",
    of=_GUARDED,
    metavar="IP:PORT",
)
@_option(
    "master_ca",
    "PEM file with the authority of the master's certificate, if it has one.",
    of=_GUARDED,
    metavar="FILE",
)
@_option(
    "api",
    "With --authz: let authenticated users reach the master's own API below /tarn.",
    "--master-api",
    of=_GUARDED,
    is_flag=True,
)
@_option("ask_port", "With --authz: port at 127.0.0.1 for authorization requests.", of=_GUARDED)
@_option(
    "grace_s",
    "With --authz: how long a right stays valid while the master is away; 0: not at all.",
    "--grace",
    of=_GUARDED,
    metavar="SECONDS",
)
@_option(
    "lua",
    f"With --authz: where {LUA} will be. [default: next to {CFG}]",
    of=_GUARDED,
    show_default=False,
    metavar="FILE",
)
@_option(
    "hold_s",
    "How long a request waits while there is no instance; 0: not at all.",
    "--hold",
    of=_KEYED,
    metavar="SECONDS",
)
@_option("hold_most", "How many requests may wait at once.", of=_KEYED)
@_option(
    "imbalance",
    "Most load of an instance, in percent of the mean, where `affinity` bounds it; 0: no bound. "
    "Adds a backend.",
    of=_KEYED,
    metavar="PERCENT",
)
@_option(
    "peers_port",
    "Port at 127.0.0.1 by which a reloaded HAProxy learns which instance has which sequence; 0: "
    "it does not.",
    of=_KEYED,
)
@_option(
    "door_lua",
    f"Where {DOOR_LUA} will be. [default: next to {CFG}; on standard output: left out]",
    of=_KEYED,
    show_default=False,
    metavar="FILE",
)
@click.option(
    "-o",
    "--output",
    "output",
    type=click.Path(path_type=Path),
    help=f"Directory for {CFG} and its Lua programs, or the file to write, with those next to it. "
    "[default: standard output, without affinity and without waiting]",
)
@click.pass_context
def config(ctx: click.Context, /, *, output: Path | None, authz: bool, **fields: Any) -> None:
    """Print a complete haproxy.cfg.

    HTTP and gRPC in front of the fleet, with timeouts fit for inference. A comment gives the reason
    for each choice. The servers come from `tarn lb haproxy`, which runs next to HAProxy.

    With --output requests that belong together, such as those of a sequence, reach the same
    instance, and requests wait while there is none: a Lua program, written next to the file, does
    both.

    With --authz a request passes only if the master says that its user may use the model.
    HAProxy then reads TARN_PROXY_TOKEN, and with --knox TARN_KNOX_GATE, from its environment.
    """
    unasked = {None, ParameterSource.DEFAULT}
    given = {name for name in fields if ctx.get_parameter_source(name) not in unasked}
    plain = {field.name for field in attrs.fields(HaproxyCfgSettings)}
    values = {name: value for name, value in fields.items() if name in plain}
    target = _Target.of(output, authz=authz)
    keyed = {field.name: fields[field.name] for field in attrs.fields(KeyedRouting)}
    if target is not None or "door_lua" in given:
        if "door_lua" not in given and target is not None:
            keyed["door_lua"] = str(target.folder / DOOR_LUA)
        values["keyed"] = KeyedRouting(**keyed)
    else:
        _refuse_keyed(given & keyed.keys())
    files = {DOOR_LUA: door_text()}
    if authz:
        values["authz"] = _authz(given, fields, target)
        files[LUA] = lua_text()
        if "grpc_port" not in given:
            values["grpc_port"] = 0  # gRPC cannot be authorized by model, so it must be asked for
    else:
        _refuse_guarded(given)
    text = render(HaproxyCfgSettings(**values))
    if target is None:
        click.echo(text, nl=False)
    else:
        target.write(text, files)


@attrs.frozen
class _Target:
    """Where the files are written."""

    folder: Path
    name: str = CFG
    is_new: bool = True
    """Whether the folder may be made."""

    @classmethod
    def of(cls, output: Path | None, *, authz: bool) -> "_Target | None":
        """Return the place that *output* names: a file if it has a suffix, else a directory."""
        if output is None:
            return None
        if not authz and output.suffix and not output.is_dir():
            return cls(output.absolute().parent, output.name, is_new=False)
        return cls(output.absolute())

    def write(self, text: str, files: Mapping[str, str]) -> None:
        """Write the configuration *text*, and *files* next to it."""
        try:
            if self.is_new:
                self.folder.mkdir(parents=True, exist_ok=True)
            for name, content in ({self.name: text} | dict(files)).items():
                (self.folder / name).write_text(content, "utf-8")
                click.echo(self.folder / name)
        except OSError as error:
            raise ConfigError(
                f"the file cannot be written: {error.strerror}",
                where=str(self.folder / self.name),
                next_step="Name a file in a folder that you may write to: -o FILE; with --authz a "
                "directory",
            ) from error


def _authz(given: set[str], fields: Mapping[str, Any], target: _Target | None) -> Authz:
    if target is None:
        raise ConfigError(
            f"--authz writes {CFG}, {LUA} and {DOOR_LUA}, and needs a directory for them",
            where="--output",
            next_step="Name a directory: --authz --output /etc/haproxy",
        )
    guarded = {field.name: fields[field.name] for field in attrs.fields(Authz)}
    if "lua" not in given:
        guarded["lua"] = str(target.folder / LUA)
    return Authz(**guarded)


def _refuse_keyed(given: set[str]) -> None:
    if given:
        raise ConfigError(
            f"{', '.join(sorted(given))} on standard output, where a Lua program cannot be written",
            where="tarn lb haproxy config",
            next_step=f"Name a directory, --output /etc/haproxy, or say with --door-lua FILE where "
            f"{DOOR_LUA} is.",
        )


def _refuse_guarded(given: set[str]) -> None:
    # Ignored, such an option would seem to guard the fleet, which stays open to everybody.
    alone = sorted(given & {field.name for field in attrs.fields(Authz)} - {"master_ca"})
    if alone:
        raise ConfigError(
            f"{', '.join(alone)} without --authz",
            where="tarn lb haproxy config",
            right="Without --authz everybody who reaches HAProxy may use every model.",
            next_step="Add --authz, or leave it out.",
        )
