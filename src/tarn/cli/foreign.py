"""Verbs that plugins bring."""

import functools
from collections.abc import Callable, Mapping

import attrs
import click

from tarn.cli.talk import Talk
from tarn.cluster import ClusterEnvironment, choose, connect, current_environment
from tarn.cluster.needs import needs
from tarn.follow import KerberosTickets, MasterApi, MasterSource, Trust

__all__ = ["verbs"]


def verbs(ctx: click.Context) -> Mapping[str, click.Command]:
    """Return the verbs that plugins bring, by name; loads the plugins.

    What they find in ``click.get_current_context().meta`` is told in `tarn.hookspecs.tarn_cli`.
    """
    around: ClusterEnvironment = ctx.obj or current_environment()
    brought = click.Group()
    for error in around.plugins().cli(brought):
        told = ctx.meta.setdefault("tarn.told", set())
        if str(error) not in told:  # a shell's completion and `--help` ask several times
            told.add(str(error))
            click.echo(f"tarn: [{error.code}] {error}; its verbs are missing", err=True)

    def find(
        name: str | None,
        api_token: Callable[[], str | None] | None = None,
        tickets: KerberosTickets | None = None,
        trust: Trust | None = None,
    ) -> MasterSource:
        told = attrs.evolve(around, api_token=api_token)
        if tickets is not None or trust is not None:
            told = attrs.evolve(told, api=functools.partial(_api, tickets, trust or Trust()))
        meant = choose(told) if name is None else name
        return connect(meant, environment=told).source

    ctx.meta["tarn.context"] = around.context(Talk())
    ctx.meta["tarn.find"] = find
    ctx.meta["tarn.needs"] = functools.partial(needs, around)
    ctx.meta["tarn.deployer"] = functools.partial(around.deployer, progress=Talk())
    return brought.commands


def _api(
    tickets: KerberosTickets | None, named: Trust, url: str, api_token: str | None, kept: Trust
) -> MasterApi:
    """Return a client of a master; what was *named* counts before what is *kept* of a cluster."""
    trust = attrs.evolve(named, ca=named.ca or kept.ca)
    return MasterApi(url, api_token, trust=trust, tickets=tickets)
