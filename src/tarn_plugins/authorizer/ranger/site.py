"""Ranger's configuration: the settings of a spec, that of the site, and that of one master.

The site's configuration names Ranger Admin and the destinations of audits; it is read once. What
belongs to one master (the service, its cache) is added, and written into a directory of the master,
which comes first on Ranger's classpath. Rendering is pure; `write` writes the files.
"""

import os
import re
import shutil
import xml.parsers.expat
from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.sax.saxutils import escape

import attrs

from tarn.errors import ConfigError, ConfigErrors
from tarn.interfaces import Finding

__all__ = [
    "CONF_DIR",
    "JARS",
    "LOGGING",
    "PREFIX",
    "SERVICE_TYPE",
    "RangerDirectories",
    "RangerSettings",
    "RangerSite",
    "check_service",
    "examine",
    "parse_properties",
    "poll_s",
    "read",
    "render_properties",
    "rendered",
    "write",
]

# The type of Ranger service, which is in the names of the definition and of the site's files.
SERVICE_TYPE = "triton"
CONF_DIR = Path("/etc/ranger/tarn")
# Searched after ``lib`` in ``conf_dir`` if ``jars`` is not set.
JARS = (Path("/usr/lib/ranger-triton-plugin/lib"), Path("/opt/ranger-triton-plugin/lib"))

# Names of services that Ranger Admin accepts.
_SERVICE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9 _-]{0,254}")
# It becomes a part of file names.
_APP_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def check_service(name: str) -> str:
    """Return *name*, or raise ``ValueError`` if it is not valid for a service. Pure."""
    if not _SERVICE.fullmatch(name):
        raise ValueError(
            f"service = {name!r} is not the name of a Ranger service; use letters, digits, "
            "blanks, '_' and '-'"
        )
    return name


@attrs.frozen
class RangerSettings:
    """``authorizer.options`` of ``ranger``. Paths are those of the master's machine."""

    service: str
    """The service in Ranger Admin whose policies decide."""
    app_id: str = "tarn"
    """What Ranger's audit and its list of plugins call this program."""
    audit: bool = True
    """Write each decision to where ``ranger-triton-audit.xml`` says."""
    conf_dir: Path = CONF_DIR
    """Holds the site's ``ranger-triton-security.xml`` and ``ranger-triton-audit.xml``."""
    jars: Path | tuple[Path, ...] | None = None
    """Directory with Ranger's jars, or each of them. None: ``lib`` in ``conf_dir``, then
    ``/usr/lib/ranger-triton-plugin/lib``, then ``/opt/ranger-triton-plugin/lib``."""
    strict: bool = True
    """Of the Java TARN: deny while Ranger cannot answer. That is always so; no is refused."""

    def __attrs_post_init__(self) -> None:
        """Refuse values that are not valid."""
        check_service(self.service)
        if not _APP_ID.fullmatch(self.app_id):
            raise ValueError(
                f"app_id = {self.app_id!r}: it becomes part of file names; use at most 64 "
                "letters, digits, '_', '.' and '-', the first a letter or digit"
            )
        if not self.strict:
            raise ValueError(
                "strict = false would open every model while Ranger does not answer. Remove it: "
                "the policies that were downloaded last stay in force, and are shown as stale"
            )


UNREADABLE = "TARN-3402"


def parse_properties(data: bytes, where: str) -> dict[str, str]:
    """Return the properties by name; of two with one name, the later one.

    Raises:
        ConfigError: It is not XML, or declares a document type, which could read other files.
    """
    reader = _PropertiesReader()
    try:
        reader.read(data)
    except xml.parsers.expat.ExpatError as error:
        raise _unreadable(where, f"it is not well-formed XML (line {error.lineno})") from error
    except ValueError as error:
        raise _unreadable(where, str(error)) from error
    return reader.found


def render_properties(properties: Mapping[str, str]) -> bytes:
    """Return the file with *properties*."""
    lines = [
        f"<property><name>{escape(name)}</name><value>{escape(value)}</value></property>"
        for name, value in properties.items()
    ]
    return "\n".join(["<configuration>", *lines, "</configuration>", ""]).encode()


class _PropertiesReader:
    """Collects the properties, and ignores other elements."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}
        self._path: list[str] = []
        self._text: list[str] = []
        self._now: dict[str, str] = {}

    def read(self, data: bytes) -> None:
        parser = xml.parsers.expat.ParserCreate()
        parser.buffer_text = True
        parser.StartDoctypeDeclHandler = self._doctype
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text.append
        parser.Parse(data, True)  # noqa: FBT003 (expat's own: the last piece)

    def _doctype(self, *_declared: object) -> None:
        raise ValueError("it declares a document type")

    def _start(self, tag: str, _attributes: object) -> None:
        if not self._path and tag != "configuration":
            raise ValueError(f"its root is <{tag}>; a configuration's is <configuration>")
        self._path.append(tag)
        self._text.clear()
        if tag == "property":
            self._now = {}

    def _end(self, tag: str) -> None:
        self._path.pop()
        if self._path[-1:] == ["property"]:
            self._now[tag] = "".join(self._text).strip()
        elif tag == "property" and self._now.get("name"):
            self.found[self._now["name"]] = self._now.get("value", "")
        self._text.clear()


def _unreadable(where: str, found: str) -> ConfigError:
    return ConfigError(found, code=UNREADABLE, where=where)


PREFIX = f"ranger.plugin.{SERVICE_TYPE}."
# Files with which a site may configure logging itself.
LOGGING = ("log4j.properties", "log4j.xml", "log4j2.properties", "log4j2.xml", "logback.xml")
_ENGINE = "ranger-plugins-common"
_DESTINATION = re.compile(r"xasecure\.audit\.(?:destination\.[^.]+|[^.]+\.is\.enabled)")
_AUDIT = "xasecure.audit.is.enabled"
_NO_CONF, _NO_JARS, _NO_ADMIN, _NO_AUDIT = "TARN-3400", "TARN-3401", "TARN-3403", "TARN-3404"


@attrs.frozen
class RangerSite:
    """The configuration and jars of a site."""

    security: Mapping[str, str] = attrs.field(repr=False)
    """From ``ranger-triton-security.xml``; may contain a password."""
    audit: Mapping[str, str] = attrs.field(repr=False)
    """From ``ranger-triton-audit.xml``; empty if there is none."""
    jars: tuple[Path, ...]
    logs: bool
    """Whether the site configures logging itself."""


@attrs.frozen
class _Part:
    """The properties of one file, or why there are none."""

    properties: Mapping[str, str] = attrs.field(factory=dict)
    found: bool = False
    problem: Finding | None = None


def read(settings: RangerSettings) -> RangerSite:
    """Return the site's configuration.

    Raises:
        ConfigErrors: All that keeps Ranger from working.
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
    """Return what keeps these settings from working on this machine; reads only files."""
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
    """Return the site's file of a *kind*, merged with the one for this service, as in Ranger."""
    properties: dict[str, str] = {}
    found = False
    for middle in (SERVICE_TYPE, f"{SERVICE_TYPE}-{settings.service}"):
        path = settings.conf_dir / f"ranger-{middle}-{kind}.xml"
        try:
            properties |= parse_properties(path.read_bytes(), str(path))
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


# Ranger's own default.
_POLL_MS = 30_000
_LOG4J = "xasecure.audit.destination.log4j"
_SPOOLING = ("solr", "hdfs", "elasticsearch", "amazon_cloudwatch")
_LOGGING = """\
log4j.rootLogger=WARN, stderr
log4j.appender.stderr=org.apache.log4j.ConsoleAppender
log4j.appender.stderr.target=System.err
log4j.appender.stderr.layout=org.apache.log4j.PatternLayout
log4j.appender.stderr.layout.ConversionPattern=%d{{ISO8601}} %p %c{{1}}: %m%n
log4j.logger.org.apache.hadoop.util.NativeCodeLoader=ERROR
# it reports the interrupt by which every clean end wakes it, with a stack trace
log4j.logger.org.apache.ranger.audit.provider.AuditProviderFactory=FATAL
# they repeat with stack traces, at each poll, what the master says once
log4j.logger.org.apache.ranger.plugin.util.PolicyRefresher=FATAL
log4j.logger.org.apache.ranger.plugin.util.RangerRolesProvider=FATAL
log4j.logger.org.apache.ranger.plugin.util.RangerRESTClient=FATAL
log4j.logger.org.apache.ranger.admin.client.RangerAdminRESTClient=WARN
log4j.additivity.org.apache.ranger.admin.client.RangerAdminRESTClient=false
log4j.logger.{logger}=INFO, audit
log4j.additivity.{logger}=false
log4j.appender.audit=org.apache.log4j.RollingFileAppender
log4j.appender.audit.file={file}
log4j.appender.audit.MaxFileSize=64MB
log4j.appender.audit.MaxBackupIndex=8
log4j.appender.audit.layout=org.apache.log4j.PatternLayout
log4j.appender.audit.layout.ConversionPattern=%m%n
"""


@attrs.frozen
class RangerDirectories:
    """One master's directories for Ranger; they have mode 0700."""

    conf: Path
    cache: Path
    """The last downloaded policies, which outlive the master."""
    confirmed: Path
    """A file that is touched whenever Ranger Admin confirms them."""
    spool: Path
    """Audits that their destination has not taken yet."""
    audit_log: Path
    """The file of the destination ``log4j``, if the site does not configure logging itself."""

    @classmethod
    def below(cls, directory: Path, logs: Path) -> "RangerDirectories":
        """Return the paths below a cluster's *directory* and its *logs*."""
        root = directory / "ranger"
        return cls(
            conf=root / "conf",
            cache=root / "cache",
            confirmed=root / "confirmed",
            spool=root / "spool",
            audit_log=logs / "ranger-audit.log",
        )


def rendered(
    settings: RangerSettings, site: RangerSite, places: RangerDirectories
) -> Mapping[str, bytes]:
    """Return the files of the master's configuration, by name. Pure."""
    security = {
        **site.security,
        f"{PREFIX}service.name": settings.service,
        f"{PREFIX}policy.cache.dir": str(places.cache),
    }
    audit = (
        _lasting_audit(site.audit, places)
        if settings.audit
        else {"xasecure.audit.is.enabled": "false"}
    )
    files: dict[str, bytes] = {}
    # Also under the name that counts last: a file of the site for this service must not win.
    for middle in (SERVICE_TYPE, f"{SERVICE_TYPE}-{settings.service}"):
        files[f"ranger-{middle}-security.xml"] = render_properties(security)
        files[f"ranger-{middle}-audit.xml"] = render_properties(audit)
    if not site.logs:
        logger = audit.get(f"{_LOG4J}.logger", "").strip() or "ranger.audit"
        escaped = str(places.audit_log).replace("\\", "\\\\")
        files["log4j.properties"] = _LOGGING.format(logger=logger, file=escaped).encode()
    return files


def _lasting_audit(site: Mapping[str, str], places: RangerDirectories) -> dict[str, str]:
    """Return the site's audit, changed to lose as little as possible at a master's end."""
    properties = dict(site)
    if _on(properties, _LOG4J):
        # A file takes each event at once; the queue before it would hold them for seconds.
        properties.setdefault(f"{_LOG4J}.queue", "none")
    for name in _SPOOLING:
        key = f"xasecure.audit.destination.{name}"
        if _on(properties, key):
            properties.setdefault(f"{key}.batch.filespool.dir", str(places.spool / name))
    return properties


def _on(properties: Mapping[str, str], key: str) -> bool:
    return properties.get(key, "").strip().lower() == "true"


def poll_s(site: RangerSite) -> float:
    """Return the interval of polling Ranger Admin, in seconds. Pure."""
    try:
        return int(site.security.get(f"{PREFIX}policy.pollIntervalMs", "")) / 1000
    except ValueError:
        return _POLL_MS / 1000


def write(files: Mapping[str, bytes], places: RangerDirectories) -> None:
    """Rewrite the configuration, and make the other directories, readable only by the owner.

    Raises:
        OSError: It cannot be written.
    """
    shutil.rmtree(places.conf, ignore_errors=True)
    for directory in (places.conf.parent, places.conf, places.cache, places.spool):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        directory.chmod(0o700)
    places.audit_log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, content in files.items():
        descriptor = os.open(places.conf / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
