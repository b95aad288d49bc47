"""What a site has set up for Ranger on this machine: its configuration and its jars, read once."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs

from tarn.errors import ConfigError, ConfigErrors
from tarn.interfaces import Finding
from tarn_plugins.authorizer.ranger.properties import parse
from tarn_plugins.authorizer.ranger.settings import JARS, SERVICE_TYPE, RangerSettings

__all__ = ["LOGGING", "PREFIX", "RangerSite", "examine", "read"]

PREFIX = f"ranger.plugin.{SERVICE_TYPE}."
LOGGING = ("log4j.properties", "log4j.xml", "log4j2.properties", "log4j2.xml", "logback.xml")
"""How a site may tell its own logging what to do."""
_ENGINE = "ranger-plugins-common"
_DESTINATION = re.compile(r"xasecure\.audit\.(?:destination\.[^.]+|[^.]+\.is\.enabled)")
_AUDIT = "xasecure.audit.is.enabled"
_NO_CONF, _NO_JARS, _NO_ADMIN, _NO_AUDIT = "TARN-3400", "TARN-3401", "TARN-3403", "TARN-3404"


@attrs.frozen
class RangerSite:
    """What was found."""

    security: Mapping[str, str] = attrs.field(repr=False)
    """Of ``ranger-triton-security.xml``; may hold a password."""
    audit: Mapping[str, str] = attrs.field(repr=False)
    """Of ``ranger-triton-audit.xml``; empty where there is none."""
    jars: tuple[Path, ...]
    logs: bool
    """It has a configuration of logging."""


@attrs.frozen
class _Part:
    """One file's properties, or why there are none."""

    properties: Mapping[str, str] = attrs.field(factory=dict)
    found: bool = False
    problem: Finding | None = None


def read(settings: RangerSettings) -> RangerSite:
    """Return what is there.

    Raises:
        ConfigErrors: Everything that keeps Ranger from working, at once.
    """
    problems = [one for one in examine(settings) if one.fatal]
    if problems:
        raise ConfigErrors(
            [
                ConfigError(one.found, code=one.code, where=one.where, next_step=one.next_step)
                for one in problems
            ]
        )
    names = {path.name for path in settings.conf_dir.iterdir()}
    return RangerSite(
        _merged("security", settings).properties,
        _merged("audit", settings).properties,
        _jars(settings),
        not names.isdisjoint(LOGGING),
    )


def examine(settings: RangerSettings) -> tuple[Finding, ...]:
    """Return what on this machine keeps these settings from working; reads files, no network."""
    return tuple(_examined(settings))


def _examined(settings: RangerSettings) -> Iterator[Finding]:
    conf = settings.conf_dir
    if not conf.is_dir():
        yield _finding(
            _NO_CONF,
            "conf_dir",
            f"'{conf}' is not a directory of this machine",
            f"Name the one that holds ranger-{SERVICE_TYPE}-security.xml",
        )
    else:
        yield from _security(_merged("security", settings), conf)
        if settings.audit:
            yield from _audit(_merged("audit", settings), conf)
    yield from _engine(settings)


def _security(part: _Part, conf: Path) -> Iterator[Finding]:
    name = f"ranger-{SERVICE_TYPE}-security.xml"
    if part.problem:
        yield part.problem
    elif not part.found:
        step = "docs/reference/ranger.md shows the least that it must contain"
        yield _finding(_NO_CONF, "conf_dir", f"'{conf}' has no {name}", step)
    elif not part.properties.get(f"{PREFIX}policy.rest.url", "").strip():
        found = f"{conf / name} does not say where Ranger Admin is"
        yield _finding(_NO_ADMIN, "conf_dir", found, f"Add {PREFIX}policy.rest.url to it")


def _audit(part: _Part, conf: Path) -> Iterator[Finding]:
    name, off = f"ranger-{SERVICE_TYPE}-audit.xml", "or set audit: false"
    if part.problem:
        yield part.problem
    elif not part.found:
        found = f"audit is on, but '{conf}' has no {name}: no decision would be recorded"
        yield _finding(_NO_AUDIT, "audit", found, f"Put it there, {off}")
    elif part.properties.get(_AUDIT, "true").strip().lower() != "true":
        found = f"audit is on, but {conf / name} says {_AUDIT} = false"
        yield _finding(_NO_AUDIT, "audit", found, f"Change it there, {off}")
    elif not any(
        name != _AUDIT and _DESTINATION.fullmatch(name) and value.strip().lower() == "true"
        for name, value in part.properties.items()
    ):
        found = f"audit is on, but {conf / name} names no destination"
        step = f"Add one, such as xasecure.audit.destination.log4j = true, {off}"
        yield _finding(_NO_AUDIT, "audit", found, step)


def _engine(settings: RangerSettings) -> Iterator[Finding]:
    jars = _jars(settings)
    missing = [str(jar) for jar in jars if not jar.is_file()]
    if missing:
        found = f"not found on this machine: {', '.join(missing)}"
        yield _finding(_NO_JARS, "jars", found, "Name jars that are there, or their directory")
    elif not any(jar.name.startswith(_ENGINE) for jar in jars):
        looked = ", ".join(str(place) for place in _places(settings)) or "the jars that are named"
        found = f"no {_ENGINE}-*.jar is in {looked}"
        step = "Name the directory of Ranger's plugin jars (docs/reference/ranger.md lists them)"
        yield _finding(_NO_JARS, "jars", found, step)


def _jars(settings: RangerSettings) -> tuple[Path, ...]:
    if isinstance(settings.jars, tuple):
        return settings.jars
    for place in _places(settings):
        found = tuple(sorted(place.glob("*.jar")))
        if any(jar.name.startswith(_ENGINE) for jar in found):
            return found
    return ()


def _places(settings: RangerSettings) -> tuple[Path, ...]:
    if isinstance(settings.jars, tuple):
        return ()
    return (settings.conf_dir / "lib", *JARS) if settings.jars is None else (settings.jars,)


def _merged(kind: str, settings: RangerSettings) -> _Part:
    """Return the site's file of a *kind*, and over it the one for this service, as Ranger does."""
    properties: dict[str, str] = {}
    found = False
    for middle in (SERVICE_TYPE, f"{SERVICE_TYPE}-{settings.service}"):
        path = settings.conf_dir / f"ranger-{middle}-{kind}.xml"
        try:
            properties |= parse(path.read_bytes(), str(path))
            found = True
        except FileNotFoundError:
            continue
        except OSError as error:
            step = "Give the user who runs the master the right to read it"
            words = f"{path} cannot be read ({error.strerror})"
            return _Part(problem=_finding("TARN-3402", "conf_dir", words, step))
        except ConfigError as error:
            words = f"{error.where}: {error.found}"
            return _Part(problem=_finding(error.code, "conf_dir", words, "Correct the file"))
    return _Part(properties, found)


def _finding(code: str, key: str, found: str, step: str) -> Finding:
    return Finding(code, f"authorizer.options.{key}", found, step)
