"""The verbs of plugins."""

import functools
from collections.abc import Callable, Mapping
from pathlib import Path

import attrs
import click

from tarn import config
from tarn.cli.show import Talk
from tarn.cluster import ClusterEnvironment, choose, connect, current_environment, entries
from tarn.cluster.connecting import inspect
from tarn.follow import KerberosTickets, MasterApi, MasterSource, Trust
from tarn.interfaces import ClusterInspection

__all__ = ["verbs"]


def verbs(ctx: click.Context) -> Mapping[str, click.Command]:
    """Return the verbs of plugins, by name; loads the plugins.

    `tarn.hookspecs.tarn_cli` describes what they find in ``click.get_current_context().meta``.
    """
    around: ClusterEnvironment = ctx.obj or current_environment()
    brought = click.Group()
    for error in around.plugins().cli(brought):
        told = ctx.meta.setdefault("tarn.told", set())
        if str(error) not in told:  # completion and `--help` call this several times
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
            named = trust or Trust()

            def api(url: str, api_token: str | None, kept: Trust) -> MasterApi:
                # The caller's authority takes precedence over the one kept with the cluster.
                merged = attrs.evolve(named, ca=named.ca or kept.ca)
                return MasterApi(url, api_token, trust=merged, tickets=tickets)

            told = attrs.evolve(told, api=api)
        meant = choose(told) if name is None else name
        return connect(meant, environment=told).source

    def inspected(name: str | None, file: Path | None = None) -> ClusterInspection:
        talk = Talk()
        return inspect(name, file, around, talk, talk.done)

    ctx.meta["tarn.context"] = around.context(Talk())
    ctx.meta["tarn.find"] = find
    ctx.meta["tarn.needs"] = functools.partial(needs, around)
    ctx.meta["tarn.deployer"] = functools.partial(around.deployer, progress=Talk())
    ctx.meta["tarn.inspect"] = inspected
    ctx.meta["tarn.names"] = lambda: [one.name for one in entries(around)]
    return brought.commands


def needs(
    around: ClusterEnvironment, path: Path
) -> tuple[frozenset[str], str, Mapping[str, object]]:
    """Return tarn's extras that a master of the spec at *path* needs, and its runtime.

    The runtime is given as its name and its options.

    Raises:
        ConfigErrors: The spec is invalid.
    """
    spec = config.load(path, environ=around.environ).spec
    offered = around.plugins()
    # The providers that run in a master; clients read the stores of secrets.
    chosen = (
        offered.offers("authorizer").get(spec.authorizer.use),
        offered.offers("scaling").get(spec.scaling.use),
        *(offered.offers("discovery").get(one.use) for one in spec.discovery),
    )
    extras = frozenset(factory.extra for factory in chosen if factory is not None)
    runtime = offered.runtimes.get(spec.runtime.use)
    if runtime is not None and runtime.capabilities.remote:
        extras |= {runtime.extra}
    if spec.api.spnego is not None:  # the only extra that belongs to no provider
        extras |= {"kerberos"}
    return extras - {""}, spec.runtime.use, spec.runtime.options
