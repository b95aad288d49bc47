"""What Maven is asked for, and what it says when it could not bring it. Pure."""

import re
from collections.abc import Iterable
from urllib.parse import urlsplit
from xml.sax.saxutils import escape

from tarn.java import mask

__all__ = ["REPOSITORY_ID", "explained", "pom", "repository_fault"]

REPOSITORY_ID = "hadoop"
"""What the user's own repository is called: a ``<server>`` of this id in Maven's settings.xml
holds its user and password."""

_ARTIFACTS = (
    "hadoop-common",
    "hadoop-hdfs",
    "hadoop-hdfs-client",
    "hadoop-yarn-client",
    "hadoop-yarn-server-nodemanager",
    "hadoop-yarn-server-resourcemanager",
    "hadoop-yarn-server-timelineservice",  # the ResourceManager does not start without it
    "hadoop-yarn-server-web-proxy",
)
_NOT_FOUND = re.compile(r"Could not find artifact (?P<artifact>\S+)")
_NOT_BROUGHT = re.compile(
    r"Could not transfer artifact \S+ from/to (?P<id>\S+) \((?P<url>[^)]*)\): (?P<why>.*?)"
    r"(?: -> \[Help \d+\])?$"
)
_BLOCKED = re.compile(r"Blocked mirror for repositories: \[\S+ \((?P<url>[^,)]*)")
_CLOSED = re.compile(r"\b(?:401|403)\b|(?i:authentication failed|not authorized|unauthorized)")
_NO_REPOSITORY = "is not the URL of a Maven repository, such as https://HOST/PATH or file:///PATH"
_URL = re.compile(r"[!-~]+")
_NO_URL = frozenset("<>\"'`{}$\\^|?#")
"""``${...}``: Maven would put a value in its place."""


def pom(version: str, repository: str = "") -> str:
    """Return a Maven project that depends on everything the daemons need.

    Args:
        version: Hadoop's.
        repository: URL that is asked besides those of Maven's settings; empty: none.
    """
    wanted = "".join(
        "    <dependency><groupId>org.apache.hadoop</groupId>"
        f"<artifactId>{name}</artifactId><version>{escape(version)}</version></dependency>\n"
        for name in _ARTIFACTS
    )
    return f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tarn</groupId>
  <artifactId>sandbox</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
{_repositories(repository)}  <dependencies>
{wanted}  </dependencies>
</project>
"""


def _repositories(url: str) -> str:
    if not url:
        return ""
    return (
        f"  <repositories><repository><id>{REPOSITORY_ID}</id><url>{escape(url)}</url>"
        "<snapshots><enabled>false</enabled></snapshots></repository></repositories>\n"
    )


def repository_fault(url: str) -> str:
    """Say why *url* cannot be a repository; '' when it can. The answer does not repeat it."""
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname, parts.port
    except ValueError:  # whose text repeats what may be a password
        return _NO_REPOSITORY
    if "@" in parts.netloc:
        return (
            "contains a user or a password, which would be written into files and shown; write "
            f"them into Maven's settings.xml, as the <server> with the id {REPOSITORY_ID}"
        )
    if parts.query or parts.fragment:
        return "has a query or a fragment; a repository is a plain folder"
    whole = bool(host) if parts.scheme in ("http", "https") else parts.path.startswith("/")
    fits = _URL.fullmatch(url) and not _NO_URL & set(url)
    if parts.scheme not in ("http", "https", "file") or not whole or not fits:
        return _NO_REPOSITORY
    return ""


def explained(lines: Iterable[str], version: str, repository: str) -> tuple[str, str]:
    """Return what Maven's last *lines* mean, and what to do; ('', ''): nobody knows.

    Args:
        lines: Of its standard output, styles off (as Maven 3.8.7 wrote them).
        version: Hadoop's, as it was asked for.
        repository: As for `pom`.
    """
    for line in lines:
        if found := _BLOCKED.search(line):
            return _blocked(mask(found["url"]))
        if found := _NOT_BROUGHT.search(line):
            return _not_brought(found)
        if found := _NOT_FOUND.search(line):
            return _not_found(found["artifact"], version, repository)
    return "", ""


def _blocked(url: str) -> tuple[str, str]:
    found = (
        f"Maven does not ask {url}: it refuses plain http, since others could change the files "
        "on their way"
    )
    return found, "Use https, or allow it in Maven's settings.xml (a <mirror> of this repository)."


def _not_brought(found: re.Match[str]) -> tuple[str, str]:
    at, why = f"the repository {found['id']} ({mask(found['url'])})", mask(found["why"])
    if _CLOSED.search(why):
        step = (
            "Write user and password into Maven's settings.xml, as the <server> with the id "
            f"{found['id']}."
        )
        return f"{at} requires a password: {why}", step
    return (
        f"{at} cannot be reached: {why}",
        "Check its URL, and the proxy in Maven's settings.xml where one is needed.",
    )


def _not_found(artifact: str, version: str, repository: str) -> tuple[str, str]:
    group, _, rest = artifact.partition(":")
    name = rest.partition(":")[0]
    own = group == "org.apache.hadoop" and artifact.endswith(f":{version}")
    places = "the repositories of Maven's settings" + (
        f", nor in {repository}" if repository else ""
    )
    found = f"there is no {name} {version} in {places}" if own else f"no {artifact} is in {places}"
    if not repository:
        return found, (
            "Check the version; a distribution's own version is in the distribution's "
            "repository: name it with --repository URL."
        )
    path = f"org/apache/hadoop/{name}/{version}/" if own else "the artifact"
    return found, (
        f"Check version and URL: {path} must exist below it. If Maven's settings.xml has a "
        f"<mirror> of everything (mirrorOf *), Maven asks that instead; exclude {REPOSITORY_ID} "
        f"there (*,!{REPOSITORY_ID})."
    )
