"""HAProxy: an agent next to it, or the master, changes its servers through the Runtime API."""

import functools
import logging
from collections.abc import Iterable, Mapping

import click

from tarn.domain import CODES, Applied, ClusterSpec, DiscoveryView
from tarn.errors import DiscoveryError, ProviderMissingError
from tarn.hookspecs import Factory, FileCheck, hookimpl
from tarn.interfaces import Check, CheckResult, Discovery, Finding, MasterContext
from tarn.plain import structure
from tarn_plugins.discovery.haproxy.settings import HaproxySettings, HaproxyTarget

__all__ = [
    "HaproxySettings",
    "tarn_cli",
    "tarn_discoveries",
    "tarn_doctor_checks",
    "tarn_doctor_files",
]

log = logging.getLogger(__name__)

_ANSWER_WITHIN_S = 5.0  # a person waits for `tarn doctor`, so it may take longer than the agent


class AgentsElsewhere:
    """A `Discovery` that publishes nothing itself: agents next to the HAProxys follow the view.

    The agents acknowledge each view over HTTP under the names in ``followers``; the master waits
    for those acknowledgements.
    """

    def reach(self, within_s: float) -> None:
        """Do nothing: ``status`` shows an agent that never connects."""

    def sync(self, view: DiscoveryView) -> None:
        """Do nothing: the agents read the view from the master's API."""

    def applied(self) -> Applied | None:
        """Return None, always."""
        return None

    def close(self, *, withdraw: bool) -> None:
        """Do nothing: the last view is empty, and the agents apply it."""


def _create(settings: HaproxySettings, context: MasterContext) -> Discovery:
    if settings.followers:
        return AgentsElsewhere()
    try:  # a master whose agents drive HAProxy does not need haproxyadmin
        from tarn_plugins.discovery.haproxy.answers_keeper import (  # noqa: PLC0415
            AnswersKeeper,
            OwnMaster,
            ServersWithAnswers,
        )
        from tarn_plugins.discovery.haproxy.runtime_api import RuntimeApi  # noqa: PLC0415
        from tarn_plugins.discovery.haproxy.servers import HAProxyServers  # noqa: PLC0415
    except ImportError as error:
        raise _lacks("discovery.use = 'haproxy' with a socket", error) from error
    target = settings.target(context.spec.name, context.spec.replicas.max)
    servers = HAProxyServers(target, context.clock, context.wake)
    if not context.api_url.startswith("http:"):  # its own certificate is not known here
        return servers
    keeper = AnswersKeeper(
        RuntimeApi(target.socket, _ANSWER_WITHIN_S, "haproxy"),
        OwnMaster(context.api_url, context.directory),
        context.clock,
        log.info,
        servers.follow,
    )
    return ServersWithAnswers(servers, keeper)


def _lacks(what: str, error: ImportError) -> ProviderMissingError:
    why = ProviderMissingError.reason("haproxyadmin", error)
    return ProviderMissingError(
        "discovery_haproxy",
        f"{what} needs haproxyadmin: {why}",
        next_step="pip install 'tarn-orchestrator[haproxy]'",
    )


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
    """Offer a check of each HAProxy whose socket *spec* names."""
    for one in spec.discovery:
        settings = structure(HaproxySettings, one.options)[0] if one.use == "haproxy" else None
        if settings is not None and settings.socket:
            target = settings.target(spec.name, spec.replicas.max)
            yield Check(
                f"HAProxy at {target.socket} ({target.backend})",
                "Through this socket the master tells it which instances get requests.",
                functools.partial(_survey, target),
            )


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


def _survey(target: HaproxyTarget) -> CheckResult:
    """Ask one HAProxy what the master asks first; changes nothing."""
    try:
        from tarn_plugins.discovery.haproxy.backends import HaproxyBackends  # noqa: PLC0415
        from tarn_plugins.discovery.haproxy.runtime_api import RuntimeApi  # noqa: PLC0415
    except ImportError as error:
        raise _lacks("a HAProxy with a socket", error) from error
    api = RuntimeApi(target.socket, _ANSWER_WITHIN_S, "haproxy")
    backends = HaproxyBackends(target, api)
    try:
        backends.check()
        numbers = api.version()
        version = ".".join(map(str, numbers))
        room = backends.capacity()
    except DiscoveryError as error:
        found = f"{error.found}. {error.right}" if error.right else error.found
        return CheckResult("", (Finding(error.code, error.where, found, error.next_step),))
    faults = tuple(_faults(target, numbers, added=room is None))
    slots = "servers are added" if room is None else f"{room} placeholder servers"
    text = f"HAProxy {version}, level admin, backend '{target.backend}', {slots}"
    return CheckResult(text, faults)


# haproxy#3360: reported for 3.2.6; 3.2.26 is the first that was seen to be without it.
_ABORTS = (3, 2, 6), (3, 2, 26)


def _faults(target: HaproxyTarget, version: tuple[int, ...], *, added: bool) -> Iterable[Finding]:
    """Return what is known to be wrong with a *version* of HAProxy."""
    first, fixed = _ABORTS
    if added and first <= version < fixed:
        found = f"HAProxy {'.'.join(map(str, version))} may abort when servers come and go"
        row = CODES["TARN-3615"]
        yield Finding(row.code, f"HAProxy at {target.socket}", found, row.next_step, fatal=False)
