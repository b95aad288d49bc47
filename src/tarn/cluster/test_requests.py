"""The user's test requests: looked at before anything starts, and brought to the master."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from tarn.domain import ClusterSpec
from tarn.domain.master_files import TEST_REQUESTS
from tarn.domain.spec import NO_TEST
from tarn.errors import ConfigError, ConfigErrors
from tarn.interfaces import Finding
from tarn.plain import did_you_mean
from tarn.triton.test_files import LONGEST_FILE, parse
from tarn.triton.test_requests import TestRequest

__all__ = ["carried_tests", "look_at_tests"]

CODE = "TARN-2013"
_KEY = "instance.test_request"


def look_at_tests(spec: ClusterSpec) -> Iterator[Finding]:
    """Yield all that is wrong with the file that ``instance.test_request`` names."""
    path = _path(spec)
    if path is None:
        return
    text, found = _read(path)
    yield from found
    if found:
        return
    requests, flaws = parse(text)
    for flaw in flaws:
        where = f"{_KEY} = '{path}'" + (f", {flaw.where}" if flaw.where else "")
        yield Finding(CODE, where, flaw.found, f"Expected {flaw.right}")
    for request in requests:
        yield from _not_served(request, spec, path)


def carried_tests(spec: ClusterSpec) -> Mapping[str, bytes]:
    """Return the file by the name that it has at a master; nothing where none is named.

    Raises:
        ConfigErrors: It cannot be read, or something is wrong with it.
    """
    wrong = [
        ConfigError(one.found, code=one.code, where=one.where, next_step=one.next_step)
        for one in look_at_tests(spec)
    ]
    if wrong:
        raise ConfigErrors(wrong)
    path = _path(spec)
    return {} if path is None else {TEST_REQUESTS: path.read_bytes()}


def _path(spec: ClusterSpec) -> Path | None:
    named = spec.instance.test_request
    return None if named in (None, NO_TEST) else Path(str(named))


def _read(path: Path) -> tuple[bytes, tuple[Finding, ...]]:
    """Return at most a byte more than is allowed, or why it cannot be read."""
    where, step = f"{_KEY} = '{path}'", "Name a file of this machine that you may read"
    try:
        if path.exists() and not path.is_file():
            return b"", (Finding(CODE, where, "is not a file", step),)
        with path.open("rb") as file:
            return file.read(LONGEST_FILE + 1), ()
    except OSError as error:
        found = f"cannot be read ({error.strerror})"
        step = f"{step}; '{NO_TEST}' switches test requests off"
        return b"", (Finding(CODE, where, found, step),)


def _not_served(request: TestRequest, spec: ClusterSpec, path: Path) -> Iterator[Finding]:
    serve = spec.models.serve
    if serve and request.model not in serve:
        step = did_you_mean(request.model, serve) or f"models.serve has {', '.join(serve)}"
        where, found = f"{_KEY} = '{path}', model", f"'{request.model}' is not in models.serve"
        yield Finding(CODE, where, found, step)
