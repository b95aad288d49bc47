"""The configuration that Ranger's engine reads in a master: the site's, with what is ours in it.

The site says where Ranger Admin is and where audits go. What belongs to one master (which service,
where its cache lies) is laid over that, and written into a directory of the master's own, which
Ranger finds first. Rendering is pure; `write` is the only part that touches the disk.
"""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import attrs

from tarn_plugins.authorizer.ranger.properties import render
from tarn_plugins.authorizer.ranger.settings import SERVICE_TYPE, RangerSettings
from tarn_plugins.authorizer.ranger.site import PREFIX, RangerSite

__all__ = ["RangerDirectories", "poll_s", "rendered", "write"]

_POLL_MS = 30_000
"""Ranger's own default."""
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
    """Where one master keeps what is Ranger's; everything below has mode 0700."""

    conf: Path
    cache: Path
    """Policies as they were downloaded last: they outlive the master."""
    confirmed: Path
    """A file: touched whenever Ranger Admin confirmed them."""
    spool: Path
    """Audits that their destination did not take yet."""
    audit_log: Path
    """Audits of the destination ``log4j``, where the site does not configure logging itself."""

    @classmethod
    def below(cls, directory: Path, logs: Path) -> "RangerDirectories":
        """Return the places below a cluster's *directory*; *logs* is for what people read."""
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
    """Return name to content of the master's own configuration. Pure."""
    security = {
        **site.security,
        f"{PREFIX}service.name": settings.service,
        f"{PREFIX}policy.cache.dir": str(places.cache),
    }
    audit = _audit(site.audit, places) if settings.audit else {"xasecure.audit.is.enabled": "false"}
    files: dict[str, bytes] = {}
    # Under the name that counts last, too: a file of the site for this service must not win.
    for middle in (SERVICE_TYPE, f"{SERVICE_TYPE}-{settings.service}"):
        files[f"ranger-{middle}-security.xml"] = render(security)
        files[f"ranger-{middle}-audit.xml"] = render(audit)
    if not site.logs:
        logger = audit.get(f"{_LOG4J}.logger", "").strip() or "ranger.audit"
        escaped = str(places.audit_log).replace("\\", "\\\\")
        files["log4j.properties"] = _LOGGING.format(logger=logger, file=escaped).encode()
    return files


def _audit(site: Mapping[str, str], places: RangerDirectories) -> dict[str, str]:
    """Return the site's audit, so that the end of a master loses as little of it as can be."""
    properties = dict(site)
    if _on(properties, _LOG4J):
        # A file takes each event at once; the queue in front of it would hold them for seconds.
        properties.setdefault(f"{_LOG4J}.queue", "none")
    for name in _SPOOLING:
        key = f"xasecure.audit.destination.{name}"
        if _on(properties, key):
            properties.setdefault(f"{key}.batch.filespool.dir", str(places.spool / name))
    return properties


def _on(properties: Mapping[str, str], key: str) -> bool:
    return properties.get(key, "").strip().lower() == "true"


def poll_s(site: RangerSite) -> float:
    """Return how often Ranger Admin is asked for changes, seconds. Pure."""
    try:
        return int(site.security.get(f"{PREFIX}policy.pollIntervalMs", "")) / 1000
    except ValueError:
        return _POLL_MS / 1000


def write(files: Mapping[str, bytes], places: RangerDirectories) -> None:
    """Write the configuration again, and make the other directories. Only the owner may read them.

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
