"""`tarn lb haproxy config`: print a haproxy.cfg."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import attrs
import click

from tarn.errors import ConfigError
from tarn_plugins.discovery.haproxy.configuration import LOGS, Settings, render

__all__ = ["config"]

F = TypeVar("F", bound=Callable[..., Any])
_PLAIN = Settings()


def _option(field: str, help_: str, *names: str, **more: Any) -> Callable[[F], F]:
    """Return the option of one field: its default is the field's."""
    names = names or (f"--{field.replace('_', '-')}",)
    default = getattr(_PLAIN, field)
    return click.option(
        *names, field, default=default, show_default=default != "", help=help_, **more
    )


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@_option("cluster", "The cluster, for the comments.", "-c", "--cluster", metavar="NAME")
@_option("address", "Where HAProxy listens; '*': everywhere.", metavar="IP")
@_option("http_port", "Its port for HTTP.")
@_option("grpc_port", "Its port for gRPC; 0: none.")
@_option("stats_port", "Its statistics, at 127.0.0.1; 0: none.")
@_option("socket", "Where its Runtime API is.", metavar="PATH")
@_option("backend", "Name of the backend for HTTP.", metavar="NAME")
@_option("grpc_backend", "Name of the backend for gRPC.", metavar="NAME")
@_option("slots", "Placeholder servers in each backend; 0: servers are added and deleted.")
@_option("slot_prefix", "How their names begin.", metavar="PREFIX")
@_option("certificate", "PEM file with chain and key: TLS at both doors.", metavar="FILE")
@_option("longest_s", "Seconds that an inference may take.", "--longest", metavar="SECONDS")
@_option("log", "Where the log goes.", type=click.Choice(LOGS))
@_option("user", "Account that HAProxy runs as; '': whoever starts it.", metavar="NAME")
@_option("group", "Group that may use the socket; '': none.", metavar="NAME")
@click.option(
    "-o",
    "--output",
    "output",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    help="Write it there. [default: to standard output]",
)
def config(output: Path | None, **fields: Any) -> None:
    """Print a complete haproxy.cfg.

    HTTP and gRPC in front of the fleet, with timeouts fit for inference. Every choice has its
    reason beside it. The servers come from `tarn lb haproxy`, which runs beside HAProxy.
    """
    known = {field.name for field in attrs.fields(Settings)}
    text = render(Settings(**{name: value for name, value in fields.items() if name in known}))
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        output.write_text(text, "utf-8")
    except OSError as error:
        raise ConfigError(
            f"the file cannot be written: {error.strerror}",
            where=str(output),
            next_step="Name a file in a folder that is yours: -o FILE",
        ) from error
