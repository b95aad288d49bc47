"""Bring Hadoop's jars: by Maven into the cache, or from an installation."""

import shutil
import subprocess
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import attrs

from tarn.errors import ProviderError
from tarn.interfaces import ClientContext, Progress
from tarn.java import mask
from tarn.triton.folders import private_folder
from tarn_plugins.cli.sandbox import maven

__all__ = ["fetched", "installed"]

_MAIN = "hadoop-yarn-server-resourcemanager-{version}.jar"
_KEPT_LINES = 15


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
            f"'{home}' does not hold a Hadoop: it has no hadoop-yarn-server-resourcemanager-*.jar",
            code="TARN-3502",
            next_step="Name an installation, or leave --hadoop-home out to download the jars.",
        )
    return tuple(found[name] for name in sorted(found))


def fetched(version: str, context: ClientContext, repository: str = "") -> tuple[Path, ...]:
    """Return the jars of this version from the cache; they are fetched once, by Maven.

    Args:
        version: Hadoop's; the cache has a folder for each.
        context: The client's.
        repository: URL of a Maven repository that is asked besides those of Maven's settings.

    Raises:
        ProviderError: Maven is missing, or could not bring them.
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
    # Next to the target, so that it arrives by a rename: whole, or not at all.
    with tempfile.TemporaryDirectory(prefix=f"{target.name}.", dir=target.parent) as made:
        work = Path(made)
        (work / "pom.xml").write_text(maven.pom(version, repository), "utf-8")
        command = (
            # Without the word about updates Maven does not ask again for what was not found once.
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
        # Somebody was faster; what they brought is the same, if it is whole.
        if not (target / _MAIN.format(version=version)).is_file():
            raise


@attrs.frozen
class _Failed:
    """What Maven left."""

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
        for line in _lines(process):
            tell(line)
            last.append(line)
    return _Failed(process.returncode, tuple(last)) if process.returncode else None


def _explained(failed: _Failed, version: str, repository: str) -> ProviderError:
    """Return the error in words, or with Maven's own where they say nothing that is known."""
    found, next_step = maven.explained(failed.last, version, repository)
    if not found:
        wrong = [line for line in failed.last if "ERROR" in line] or failed.last
        said = mask("\n".join(wrong))
        found = f"Maven could not download Hadoop's jars (exit code {failed.code}):\n{said}"
        next_step = "Check the version, and the repositories in Maven's settings.xml."
    return ProviderError("sandbox", found, code="TARN-3502", next_step=next_step)


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
