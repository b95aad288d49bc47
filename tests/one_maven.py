"""Maven runs once at a time: two would write into one repository."""

import contextlib
import fcntl
from collections.abc import Iterator

from tarn import config


@contextlib.contextmanager
def one_maven() -> Iterator[None]:
    """Wait until no other worker or session of tests fetches; look for the files inside."""
    cache = config.paths(config.environ()).cache
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "tests.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
