"""Maven runs once at a time: two would write into one repository."""

import contextlib
import fcntl
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tarn import config


@contextlib.contextmanager
def one_maven() -> Iterator[None]:
    """Wait until no other worker or session of tests fetches; look for the files inside."""
    cache = config.paths(config.environ()).cache
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "tests.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def jars(name: str, pom: str) -> Path:
    """Return the folder *name* in the cache with all that *pom* names; Maven brings it once."""
    target = config.paths(config.environ()).cache / name
    with one_maven():
        if not target.is_dir():
            _fetch(target, pom)
    return target


def _fetch(target: Path, pom: str) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    # Next to the target, so that it arrives by a rename: whole, or not at all.
    with tempfile.TemporaryDirectory(prefix=f"{target.name}.", dir=target.parent) as made:
        (Path(made) / "pom.xml").write_text(pom)
        subprocess.run(
            [
                *("mvn", "--batch-mode", "-q", "-f", f"{made}/pom.xml"),
                *("dependency:copy-dependencies", "-DincludeScope=runtime"),
                f"-DoutputDirectory={made}/jars",
            ],
            check=True,
            timeout=900,
        )
        (Path(made) / "jars").rename(target)
