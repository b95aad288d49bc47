"""The authorizer `ranger`: Apache Ranger's own engine, in the master.

::

    site        the settings, the site's configuration, and the one that the engine reads
    engine      Ranger's classes, in their own class loader, and its contact with Ranger Admin
    authorizer  translates requests for the engine, and its decisions to verdicts
    setup_file  the file of policies, and the service definition (pure)
    commands    `tarn ranger`: Ranger Admin over HTTP
"""

import contextlib
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import click

from tarn.domain import ClusterSpec
from tarn.errors import LaunchError
from tarn.hookspecs import Factory, hookimpl
from tarn.interfaces import Authorizer, Check, CheckResult, Finding, MasterContext
from tarn.plain import structure
from tarn_plugins.authorizer.ranger.site import (
    PREFIX,
    RangerDirectories,
    RangerSettings,
    examine,
    poll_s,
    read,
    rendered,
    write,
)

__all__ = ["RangerSettings", "tarn_authorizers", "tarn_cli", "tarn_doctor_checks"]

_CONNECT_S = 5.0
# If the JVM is not running yet. 1,000 policies need 30 MiB, and 60 while they change (measured).
HEAP_MIB = 128


def _create(settings: RangerSettings, context: MasterContext) -> Authorizer:
    """Return the authorizer, which denies everything until its engine is open.

    Raises:
        ConfigErrors: The site's configuration or Ranger's jars are missing.
        LaunchError: There is no Java, or the master's directory cannot be written.
    """
    from tarn.java import ensure, java_home, kerberos_options  # noqa: PLC0415
    from tarn_plugins.authorizer.ranger.authorizer import RangerAuthorizer  # noqa: PLC0415
    from tarn_plugins.authorizer.ranger.engine import AdminContact, RangerEngine  # noqa: PLC0415

    site = read(settings)
    # On YARN the logs go to the directory that it collects.
    collected = context.environ.get("LOG_DIRS", "").split(",")[0]
    logs = Path(collected) if collected else context.directory / "logs"
    places = RangerDirectories.below(context.directory, logs)
    try:
        write(rendered(settings, site, places), places)
    except OSError as error:
        found = f"Ranger's configuration cannot be written ({error})"
        raise LaunchError("ranger", found, code="TARN-3405") from error
    ensure(HEAP_MIB, java_home(context.environ), kerberos_options(context.environ))
    heard = AdminContact(context.clock, poll_s(site), places.confirmed)
    rest = (settings.conf_dir, *site.jars)

    def opened() -> RangerEngine:
        return RangerEngine(places.conf, rest, settings.app_id, heard, audit=settings.audit)

    return RangerAuthorizer(settings.service, context.spec.name, heard, opened)


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
            looks=examine,
        )
    }


@hookimpl
def tarn_doctor_checks(spec: ClusterSpec) -> Iterable[Check]:
    """Look at Ranger's configuration and jars, and whether Ranger Admin answers."""
    if spec.authorizer.use != "ranger":
        return ()
    settings, _problems = structure(RangerSettings, dict(spec.authorizer.options))
    if settings is None:  # reading the spec reports what is wrong with the options
        return ()
    here = spec.runtime.use == "local"
    return (
        Check(
            "Ranger's configuration and jars",
            "Without them the master denies every request.",
            lambda: _files(settings, here=here),
        ),
        Check(
            "Ranger Admin",
            "Policies come from there; while it does not answer, the last downloaded ones decide.",
            lambda: _admin(settings),
        ),
    )


@hookimpl
def tarn_cli(commands: click.Group) -> None:
    """Add ``tarn ranger``."""
    from tarn_plugins.authorizer.ranger.commands import ranger  # noqa: PLC0415 (only when asked)

    commands.add_command(ranger)


def _files(settings: RangerSettings, *, here: bool) -> CheckResult:
    found = examine(settings)
    if here:
        return CheckResult(f"{settings.conf_dir} and Ranger's jars are there", found)
    if found:
        return CheckResult("they are not on this machine, but must be on each node", known=False)
    return CheckResult("they are on this machine, and must be on each node")


def _admin(settings: RangerSettings) -> CheckResult:
    if examine(settings):
        return CheckResult("its address is in a file that this machine does not have", known=False)
    urls = read(settings).security.get(f"{PREFIX}policy.rest.url", "")
    silent = [url for url in map(str.strip, urls.split(",")) if url and not _answers(url)]
    if not silent:
        return CheckResult(f"it can be reached at {urls}")
    where = f"{PREFIX}policy.rest.url"
    step = "Check the address, and that the network lets this machine through"
    found = (f"nobody answers at {url}" for url in silent)
    away = tuple(Finding("TARN-3406", where, one, step, fatal=False) for one in found)
    return CheckResult("", away)


def _answers(url: str) -> bool:
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    with contextlib.suppress(OSError):
        socket.create_connection((parts.hostname or "", port), timeout=_CONNECT_S).close()
        return True
    return False
