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

__all__ = ["config"]

F = TypeVar("F", bound=Callable[..., Any])
_PLAIN = HaproxyCfgSettings()
_GUARDED = Authz(lua=f"/etc/haproxy/{LUA}")
CFG = "haproxy.cfg"


def _option(
    field: str, help_: str, *names: str, of: HaproxyCfgSettings | Authz = _PLAIN, **more: Any
) -> Callable[[F], F]:
    """Return the option of one field: its default is the field's."""
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
    "With --authz: PEM file with the authority of the master's certificate.",
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
@click.option(
    "-o",
    "--output",
    "output",
    type=click.Path(path_type=Path),
    help="File to write; with --authz a directory, for two files. [default: standard output]",
)
@click.pass_context
def config(ctx: click.Context, /, *, output: Path | None, authz: bool, **fields: Any) -> None:
    """Print a complete haproxy.cfg.

    HTTP and gRPC in front of the fleet, with timeouts fit for inference. A comment gives the reason
    for each choice. The servers come from `tarn lb haproxy`, which runs next to HAProxy.

    With --authz a request passes only if the master says that its user may use the model.
    HAProxy then reads TARN_PROXY_TOKEN, and with --knox TARN_KNOX_GATE, from its environment.
    """
    given = {name for name in fields if _is_given(ctx, name)}
    plain = {field.name for field in attrs.fields(HaproxyCfgSettings)}
    values = {name: value for name, value in fields.items() if name in plain}
    if not authz:
        _refuse_guarded(given)
        _write(output, {"": render(HaproxyCfgSettings(**values))})
        return
    if output is None:
        raise ConfigError(
            f"--authz writes two files, {CFG} and {LUA}, and needs a directory for them",
            where="--output",
            next_step="Name a directory: --authz --output /etc/haproxy",
        )
    if "grpc_port" not in given:
        values["grpc_port"] = 0  # no door that cannot keep models apart, unless it is asked for
    guarded = {field.name: fields[field.name] for field in attrs.fields(Authz)}
    if "lua" not in given:
        guarded["lua"] = str(output.absolute() / LUA)
    text = render(HaproxyCfgSettings(**values, authz=Authz(**guarded)))
    _write(output, {CFG: text, LUA: lua_text()})


def _is_given(ctx: click.Context, name: str) -> bool:
    return ctx.get_parameter_source(name) not in {None, ParameterSource.DEFAULT}


def _refuse_guarded(given: set[str]) -> None:
    """Refuse what would be believed to guard something, and guards nothing."""
    alone = sorted(given & {field.name for field in attrs.fields(Authz)})
    if alone:
        raise ConfigError(
            f"{', '.join(alone)} without --authz",
            where="tarn lb haproxy config",
            right="Without --authz everybody who reaches HAProxy may use every model.",
            next_step="Add --authz, or leave it out.",
        )


def _write(output: Path | None, files: Mapping[str, str]) -> None:
    """Write *files*, by their names below *output*; the name '' is *output* itself."""
    if output is None:
        click.echo("".join(files.values()), nl=False)
        return
    try:
        for name, text in files.items():
            if not name:
                output.write_text(text, "utf-8")
                continue
            output.mkdir(parents=True, exist_ok=True)
            (output / name).write_text(text, "utf-8")
            click.echo(output / name)
    except OSError as error:
        raise ConfigError(
            f"the file cannot be written: {error.strerror}",
            where=str(output),
            next_step="Name a file in a folder that you may write to: -o FILE; with --authz a "
            "directory",
        ) from error
