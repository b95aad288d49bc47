"""The authorizer `ranger`: Apache Ranger's own engine, in the master.

::

    settings    what a user writes                                              pure
    properties  Hadoop's configuration files                                    pure
    site        what is on this machine: the site's configuration, the jars
    conf        the configuration of one master: the site's, and what is ours   pure, but `write`
    heard       when Ranger Admin answered last
    engine      Ranger's classes, in an island of the JVM
    authorizer  questions to the engine, its answers to verdicts
    definition  the service definition that Ranger Admin needs                  pure
    wanted      what a file of policies asks for                                pure
    admin       Ranger Admin over HTTP
    commands    `tarn ranger`
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

import click

from tarn.domain import ClusterSpec
from tarn.errors import LaunchError
from tarn.hookspecs import Factory, hookimpl
from tarn.interfaces import Authorizer, Check, ClientContext, Finding, MasterContext
from tarn_plugins.authorizer.ranger.settings import RangerSettings
from tarn_plugins.authorizer.ranger.site import examine, read

__all__ = ["RangerSettings", "tarn_authorizers", "tarn_cli", "tarn_doctor_checks"]

HEAP_MIB = 128
"""Where nobody else has started the JVM. 1,000 policies live in 30 MiB, and 60 while they change
(measured)."""


def _create(settings: RangerSettings, context: MasterContext) -> Authorizer:
    """Return the authorizer; its engine is opened meanwhile, and until then it denies.

    Raises:
        ConfigErrors: The site's configuration or Ranger's jars are not here.
        LaunchError: There is no Java, or the master's directory cannot be written.
    """
    from tarn.java import ensure, java_home, kerberos_options  # noqa: PLC0415
    from tarn_plugins.authorizer.ranger import conf  # noqa: PLC0415
    from tarn_plugins.authorizer.ranger.admin_contact import AdminContact  # noqa: PLC0415
    from tarn_plugins.authorizer.ranger.authorizer import (  # noqa: PLC0415
        GuardedCluster,
        RangerAuthorizer,
    )
    from tarn_plugins.authorizer.ranger.engine import RangerEngine  # noqa: PLC0415

    site = read(settings)
    places = conf.RangerDirectories.below(context.directory, _logs(context))
    try:
        conf.write(conf.rendered(settings, site, places), places)
    except OSError as error:
        found = f"Ranger's configuration cannot be written ({error})"
        raise LaunchError("ranger", found, code="TARN-3405") from error
    ensure(HEAP_MIB, java_home(context.environ), kerberos_options(context.environ))
    heard = AdminContact(context.clock, conf.poll_s(site), places.confirmed)
    rest = (settings.conf_dir, *site.jars)

    def opened() -> RangerEngine:
        return RangerEngine(places.conf, rest, settings.app_id, heard, audit=settings.audit)

    return RangerAuthorizer(GuardedCluster(settings.service, context.spec.name), heard, opened)


def _logs(context: MasterContext) -> Path:
    """Return where logs of this master belong: on YARN those that it collects."""
    collected = context.environ.get("LOG_DIRS", "").split(",")[0]
    return Path(collected) if collected else context.directory / "logs"


def _looks(settings: RangerSettings) -> Iterable[Finding]:
    return examine(settings)


@hookimpl
def tarn_authorizers() -> Mapping[str, Factory[Authorizer]]:
    """Offer ``ranger``."""
    return {
        "ranger": Factory(
            settings=RangerSettings,
            create=_create,
            summary="policies of Apache Ranger",
            requires=("jpype",),
            extra="ranger",
            looks=_looks,
        )
    }


@hookimpl
def tarn_doctor_checks(spec: ClusterSpec, context: ClientContext) -> Iterable[Check]:
    """Look at Ranger's configuration and jars, and whether Ranger Admin answers."""
    if spec.authorizer.use != "ranger":
        return ()
    from tarn_plugins.authorizer.ranger.doctor import checks  # noqa: PLC0415

    return checks(spec, context)


@hookimpl
def tarn_cli(commands: click.Group) -> None:
    """Add ``tarn ranger``."""
    from tarn_plugins.authorizer.ranger.commands import ranger  # noqa: PLC0415 (only when asked)

    commands.add_command(ranger)
