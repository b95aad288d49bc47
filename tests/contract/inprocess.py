"""Run a contract suite without pytest around it, so that sixty broken providers take seconds."""

import inspect
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

__all__ = ["broken_promises", "promises"]


def promises(suite: type) -> tuple[str, ...]:
    """Return the names of the suite's tests, in order of definition."""
    names: dict[str, None] = {}
    for kind in reversed(suite.__mro__):
        names.update(dict.fromkeys(name for name in vars(kind) if name.startswith("test_")))
    return tuple(names)


def broken_promises(
    suite: type, only: Iterable[str] | None = None
) -> Iterator[tuple[str, BaseException]]:
    """Yield the name and the error of each test of *suite* that fails; lazily.

    *only* names the tests to run; None: all of them.
    """
    for name in promises(suite) if only is None else only:
        error = _run(suite, name)
        if error is not None:
            yield name, error


def _run(suite: type, name: str) -> BaseException | None:
    place = Path(tempfile.mkdtemp(prefix="contract-"))
    subject = suite()
    if hasattr(subject, "setup_method"):
        subject.setup_method()
    test = getattr(subject, name)
    wants_place = "tmp_path" in inspect.signature(test).parameters
    try:
        test(**({"tmp_path": place} if wants_place else {}))
    # A failed pytest.raises is no Exception; whatever a broken provider raises is its failure.
    except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001
        return error
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return None
