"""Get Hadoop's jars, by Maven or from an installation; and find Java."""

import re
import shutil
import subprocess
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from urllib.parse import urlsplit
from xml.sax.saxutils import escape

import attrs

from tarn.errors import ProviderError
from tarn.interfaces import ClientContext, Progress
from tarn.java import OLDEST_JAVA, java_version, mask
from tarn.triton.folders import private_folder

__all__ = ["fetched", "find_java", "installed", "repository_fault"]

# The id of the user's repository. A ``<server>`` with this id in Maven's settings.xml has its user
# and password.
REPOSITORY_ID = "hadoop"

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
# Includes ``${...}``, which Maven would replace.
_NO_URL = frozenset("<>\"'`{}$\\^|?#")

_MAIN = "hadoop-yarn-server-resourcemanager-{version}.jar"
_KEPT_LINES = 15

_INSTALL = "Install Java 11 or newer (Debian: apt install default-jre-headless), or set JAVA_HOME."


def pom(version: str, repository: str = "") -> str:
    """Return a Maven project that depends on everything the daemons need.

    Args:
        version: Hadoop's.
        repository: URL of a further repository, besides those of Maven's settings; or empty.
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
    """Return why *url* cannot be a repository; '' if it can. Never repeats *url*."""
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname, parts.port
    except ValueError:  # whose text may contain a password
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
    """Return the meaning of Maven's last *lines* and a next step; ('', '') if unknown.

    Args:
        lines: Of its standard output without styles, as Maven 3.8.7 writes them.
        version: The requested version of Hadoop.
        repository: As for `pom`.
    """
    for line in lines:
        if found := _BLOCKED.search(line):
            why = "it refuses plain http, since others could change the files on their way"
            step = "Use https, or allow it in Maven's settings.xml (a <mirror> of this repository)."
            return f"Maven does not ask {mask(found['url'])}: {why}", step
        if found := _NOT_BROUGHT.search(line):
            return _not_brought(found)
        if found := _NOT_FOUND.search(line):
            return _not_found(found["artifact"], version, repository)
    return "", ""


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


def installed(home: Path) -> tuple[Path, ...]:
    """Return the jars of an installation of Hadoop, or of *home* and its ``lib``.

    Raises:
        ProviderError: It has no jars of Hadoop.
    """
    shared = home / "share" / "hadoop"
    places = [home, home / "lib"]
    for part in ("common", "hdfs", "yarn", "mapreduce"):
        places += [shared / part / "lib", shared / part]
    places.append(shared / "yarn" / "timelineservice")
    found = {jar.name: jar.resolve() for place in places for jar in place.glob("*.jar")}
    if not any(name.startswith("hadoop-yarn-server-resourcemanager-") for name in found):
        raise ProviderError(
            "sandbox",
            f"'{home}' does not hold a Hadoop: it has no hadoop-yarn-server-resourcemanager-*.jar",
            code="TARN-3502",
            next_step="Name an installation, or leave --hadoop-home out to download the jars.",
        )
    return tuple(found[name] for name in sorted(found))


def fetched(version: str, context: ClientContext, repository: str = "") -> tuple[Path, ...]:
    """Return the jars of a version of Hadoop, which Maven downloads once into the cache.

    Args:
        version: Hadoop's; the cache has a folder for each.
        context: The client's.
        repository: URL of a further repository, besides those of Maven's settings.

    Raises:
        ProviderError: Maven is missing, or could not download them.
    """
    target = context.paths.cache / f"hadoop-{version}"
    if not (target / _MAIN.format(version=version)).is_file():
        _fetch(version, repository, target, context)
    return tuple(sorted(target.glob("*.jar")))


def _fetch(version: str, repository: str, target: Path, context: ClientContext) -> None:
    program = shutil.which("mvn", path=context.environ.get("PATH"))
    if program is None:
        raise ProviderError(
            "sandbox",
            "mvn is not on PATH, and the jars of Hadoop are not in the cache yet",
            code="TARN-3501",
            next_step="Install Maven (Debian: apt install maven), or name an installation of "
            "Hadoop with --hadoop-home.",
        )
    private_folder(target.parent)
    # Next to the target, so that one rename makes it appear as a whole.
    with tempfile.TemporaryDirectory(prefix=f"{target.name}.", dir=target.parent) as made:
        work = Path(made)
        (work / "pom.xml").write_text(pom(version, repository), "utf-8")
        command = (
            # Without --update-snapshots Maven does not look again for an artifact once missed.
            *(program, "--batch-mode", "--update-snapshots", "-Dstyle.color=never"),
            *("-f", str(work / "pom.xml")),
            *("dependency:copy-dependencies", "-DincludeScope=runtime"),
            f"-DoutputDirectory={work / 'jars'}",
        )
        failed = _run(command, context.environ, work, _teller(version, context.progress))
        if failed is not None:
            raise _explained(failed, version, repository)
        _put(work / "jars", target, version)


def _put(jars: Path, target: Path, version: str) -> None:
    if not (jars / _MAIN.format(version=version)).is_file():
        raise ProviderError(
            "sandbox",
            f"Maven did not download a ResourceManager of Hadoop {version}",
            code="TARN-3502",
        )
    try:
        jars.rename(target)
    except OSError:
        # Another process was faster; its folder is as good, if it is complete.
        if not (target / _MAIN.format(version=version)).is_file():
            raise


@attrs.frozen
class _Failed:
    """The result of a failed Maven."""

    code: int
    last: tuple[str, ...]
    """Its last lines."""


def _run(
    command: tuple[str, ...], environ: Mapping[str, str], work: Path, tell: Callable[[str], None]
) -> _Failed | None:
    """Run Maven; return how it failed, or None."""
    last: deque[str] = deque(maxlen=_KEPT_LINES)
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=dict(environ),
        cwd=work,
        text=True,
        errors="replace",
    ) as process:
        for raw in process.stdout or ():
            line = raw.rstrip()
            tell(line)
            last.append(line)
    return _Failed(process.returncode, tuple(last)) if process.returncode else None


def _explained(failed: _Failed, version: str, repository: str) -> ProviderError:
    """Return an error that explains the failure, or quotes Maven if it is unknown."""
    found, next_step = explained(failed.last, version, repository)
    if not found:
        wrong = [line for line in failed.last if "ERROR" in line] or failed.last
        said = mask("\n".join(wrong))
        found = f"Maven could not download Hadoop's jars (exit code {failed.code}):\n{said}"
        next_step = "Check the version, and the repositories in Maven's settings.xml."
    return ProviderError("sandbox", found, code="TARN-3502", next_step=next_step)


def _teller(version: str, progress: Callable[[Progress], None]) -> Callable[[str], None]:
    """Return a function that reports progress, from the lines that Maven prints."""
    seen = {"Downloaded": 0, "Copying": 0}

    def tell(line: str) -> None:
        for word in seen:
            if f"{word} " in line:
                seen[word] += 1
                progress(
                    Progress(
                        "fetching",
                        f"Hadoop {version}, once: {seen['Downloaded']} files downloaded, "
                        f"{seen['Copying']} jars laid out",
                    )
                )

    return tell


def find_java(environ: Mapping[str, str]) -> Path:
    """Return the home of the Java in ``JAVA_HOME``, or of `java` on ``PATH``.

    Raises:
        ProviderError: There is no Java, or it is too old.
    """
    home = environ.get("JAVA_HOME", "")
    found = f"{home}/bin/java" if home else shutil.which("java", path=environ.get("PATH"))
    if not found or not Path(found).is_file():
        where = f"JAVA_HOME = '{home}' holds no bin/java" if home else "no java on PATH"
        raise ProviderError("sandbox", where, code="TARN-3501", next_step=_INSTALL)
    java = Path(found).resolve().parents[1]
    major = java_version(java)
    if major is not None and major < OLDEST_JAVA:
        raise ProviderError(
            "sandbox", f"{java} is Java {major}", code="TARN-3501", next_step=_INSTALL
        )
    return java
