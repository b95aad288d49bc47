"""HAProxy: servers pushed through its Runtime API, by an agent beside it or by the master."""

import click

from tarn.hookspecs import hookimpl

__all__ = ["tarn_cli"]


@hookimpl
def tarn_cli(commands: click.Group) -> None:
    """Add ``tarn lb haproxy``."""
    from tarn_plugins.discovery.haproxy.commands import haproxy  # noqa: PLC0415 (only when asked)

    help_ = "Load balancers in front of a cluster."
    lb = commands.commands.setdefault("lb", click.Group("lb", help=help_))
    assert isinstance(lb, click.Group)
    lb.add_command(haproxy)
