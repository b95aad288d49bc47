"""Bring Hadoop's jars: by Maven into the cache, or from an installation."""

import shutil
import subprocess
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from xml.sax.saxutils import escape

from tarn.errors import ProviderError
from tarn.interfaces import ClientContext, Progress

__all__ = ["fetched", "installed", "pom"]

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
_MAIN = "hadoop-yarn-server-resourcemanager-{version}.jar"
_KEPT_LINES = 15


def pom(version: str) -> str:
    """Return a Maven project that depends on everything the daemons need. Pure."""
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
  <dependencies>
{wanted}  </dependencies>
</project>
"""


def installed(home: Path) -> tuple[Path, ...]:
    """Return the jars of an installation of Hadoop, or those right in *home* or its ``lib``.

    Raises:
        ProviderError: There are none.
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
            f"'{home}' holds no Hadoop: no hadoop-yarn-server-resourcemanager-*.jar in it",
            code="TARN-3502",
            next_step="Name an installation, or leave --hadoop-home out: the jars are fetched.",
        )
    return tuple(found[name] for name in sorted(found))


def fetched(version: str, context: ClientContext) -> tuple[Path, ...]:
    """Return the jars of this version from the cache; they are fetched once, by Maven.

    Raises:
        ProviderError: Maven is missing, or could not bring them.
    """
    target = context.paths.cache / f"hadoop-{version}"
    if not (target / _MAIN.format(version=version)).is_file():
        _fetch(version, target, context)
    return tuple(sorted(target.glob("*.jar")))


def _fetch(version: str, target: Path, context: ClientContext) -> None:
    maven = shutil.which("mvn", path=context.environ.get("PATH"))
    if maven is None:
        raise ProviderError(
            "sandbox",
            "no mvn on PATH, and the jars of Hadoop are not in the cache yet",
            code="TARN-3501",
            next_step="Install Maven (Debian: apt install maven), or name an installation of "
            "Hadoop with --hadoop-home.",
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    # Beside the target, so that it arrives by a rename: whole, or not at all.
    with tempfile.TemporaryDirectory(prefix=f"{target.name}.", dir=target.parent) as made:
        work = Path(made)
        (work / "pom.xml").write_text(pom(version), "utf-8")
        command = (
            *(maven, "--batch-mode", "-Dstyle.color=never", "-f", str(work / "pom.xml")),
            *("dependency:copy-dependencies", "-DincludeScope=runtime"),
            f"-DoutputDirectory={work / 'jars'}",
        )
        _run(command, context.environ, work, _teller(version, context.progress))
        _put(work / "jars", target, version)


def _put(jars: Path, target: Path, version: str) -> None:
    if not (jars / _MAIN.format(version=version)).is_file():
        raise ProviderError(
            "sandbox", f"Maven brought no ResourceManager of Hadoop {version}", code="TARN-3502"
        )
    try:
        jars.rename(target)
    except OSError:
        # Somebody was faster; what they brought is the same, if it is whole.
        if not (target / _MAIN.format(version=version)).is_file():
            raise


def _run(
    command: tuple[str, ...], environ: Mapping[str, str], work: Path, tell: Callable[[str], None]
) -> None:
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
        for line in _lines(process):
            tell(line)
            last.append(line)
    if process.returncode:
        said = "\n".join(line for line in last if "ERROR" in line) or "\n".join(last)
        raise ProviderError(
            "sandbox",
            f"Maven could not bring Hadoop's jars (exit code {process.returncode}):\n{said}",
            code="TARN-3502",
            next_step="Check the version, and the repositories in Maven's settings.xml.",
        )


def _lines(process: "subprocess.Popen[str]") -> Iterator[str]:
    return (line.rstrip() for line in process.stdout or ())


def _teller(version: str, progress: Callable[[Progress], None]) -> Callable[[str], None]:
    """Return who counts Maven's lines: the files that it downloads, and those that it lays out."""
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
