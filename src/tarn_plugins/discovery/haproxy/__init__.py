"""HAProxy: servers pushed through its Runtime API, by an agent next to it or by the master."""

from collections.abc import Iterable, Mapping

import click

from tarn.domain import ClusterSpec
from tarn.errors import ProviderMissingError
from tarn.hookspecs import Factory, FileCheck, hookimpl
from tarn.interfaces import Check, Discovery, MasterContext
from tarn_plugins.discovery.haproxy.settings import HaproxySettings

__all__ = [
    "HaproxySettings",
    "tarn_cli",
    "tarn_discoveries",
    "tarn_doctor_checks",
    "tarn_doctor_files",
]


def _create(settings: HaproxySettings, context: MasterContext) -> Discovery:
    # each is imported when it is made: only who drives a HAProxy needs haproxyadmin
    if settings.followers:
        from tarn_plugins.discovery.haproxy.elsewhere import AgentsElsewhere  # noqa: PLC0415

        return AgentsElsewhere()
    try:
        from tarn_plugins.discovery.haproxy.servers import HAProxyServers  # noqa: PLC0415
    except ImportError as error:
        raise ProviderMissingError(
            "discovery_haproxy",
            "discovery.use = 'haproxy' with a socket needs haproxyadmin: "
            f"{ProviderMissingError.reason('haproxyadmin', error)}",
            next_step="pip install 'tarn-orchestrator[haproxy]'",
        ) from error
    target = settings.target(context.spec.name, context.spec.replicas.max)
    return HAProxyServers(target, context.clock, context.wake)


@hookimpl
def tarn_discoveries() -> Mapping[str, Factory[Discovery]]:
    """Offer ``haproxy``."""
    return {
        "haproxy": Factory(
            settings=HaproxySettings,
            create=_create,
            summary="servers of HAProxy, pushed through its Runtime API",
            extra="haproxy",
        )
    }


@hookimpl
def tarn_doctor_checks(spec: ClusterSpec) -> Iterable[Check]:
    """Offer to look at each HAProxy whose socket *spec* names."""
    from tarn_plugins.discovery.haproxy.checks import checks  # noqa: PLC0415 (only when asked)

    return checks(spec)


@hookimpl
def tarn_doctor_files() -> Mapping[str, FileCheck]:
    """Offer to examine a ``haproxy.cfg``."""
    from tarn_plugins.discovery.haproxy.cfg_file import examine  # noqa: PLC0415 (only when asked)

    return {"haproxy-cfg": FileCheck(examine, "a configuration of HAProxy")}


@hookimpl
def tarn_cli(commands: click.Group) -> None:
    """Add ``tarn lb haproxy``."""
    from tarn_plugins.discovery.haproxy.commands import haproxy  # noqa: PLC0415 (only when asked)

    help_ = "Load balancers in front of a cluster."
    lb = commands.commands.setdefault("lb", click.Group("lb", help=help_))
    assert isinstance(lb, click.Group)
    lb.add_command(haproxy)
