"""What a container is to run, as a file that no shell can misread. Pure.

YARN's own launch script is a shell: whatever stands in its command or its environment is expanded.
So the command is a constant, and everything that a user wrote travels in this file, a line each::

    %<escaped>        keep standard output and standard error below so many bytes each
    :<escaped>        leave a file of this name next to the logs
    -NAME             unset the variable NAME, which YARN had set
    NAME=<escaped>    set it
    +<escaped>        make this directory
    @<escaped>        show every model of ``models`` in this directory
    <escaped>         one argument; the first is the program
    =                 the end: a file without it is not whole

Every byte outside letters and digits is written as the octal escape of ``printf %b``, so that none
of them can mean anything on the way. ``run_script`` reads it.
"""

import re
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs

from tarn.errors import LaunchError

__all__ = ["LogFiles", "encode", "problem"]

_PLAIN = frozenset((string.ascii_letters + string.digits).encode())
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SHELLS_OWN = re.compile(
    r"_|_tarn_.*|BASH.*|COMP_.*|DIRSTACK|EPOCHREALTIME|EPOCHSECONDS|EUID|FUNCNAME|GROUPS|HISTCMD"
    r"|LINENO|OPTERR|OPTIND|PIPESTATUS|POSIXLY_CORRECT|PPID|RANDOM|SECONDS|SHELLOPTS|SHLVL|SRANDOM"
    r"|UID"
)
"""Variables that one shell or another makes itself, or lets nobody set."""
_LONGEST = 128 * 1024 - 1
"""Bytes of one string that Linux passes to a program (``MAX_ARG_STRLEN``, less the NUL)."""

Value = str | bytes


@attrs.frozen
class LogFiles:
    """What becomes of a container's logs while its program runs."""

    most_bytes: int
    """One that is larger is moved aside, in place of what was moved before."""
    mark: str = ""
    """Name of a file next to them, by which they are found later; empty: none."""


def encode(
    argv: Sequence[Value],
    environ: Mapping[str, Value | None],
    directories: Iterable[Value] = (),
    shown_at: Value = "",
    logs: LogFiles | None = None,
) -> bytes:
    """Return the launch file of one container.

    Args:
        argv: The program, looked up on the ``PATH`` that it gets, and its arguments. Text is
            written as UTF-8; surrogate escapes become the bytes that they stand for.
        environ: Variables besides those that YARN sets; None takes one of those away.
        directories: Made before the program starts; relative to the container's directory.
        shown_at: Directory in which links to what is in ``models`` are made; empty: nowhere.
        logs: How its logs are kept; None: as they grow.

    Raises:
        LaunchError: A value cannot be passed to any program, or not by a shell. Final, and
            without the value: it may be a secret.
    """
    if not argv or _bytes(argv[0])[:1] in (b"", b"-"):
        raise _impossible("the first argument is not a program")
    lines = [
        *_kept(logs),
        *_environment(environ),
        *(b"+" + _escaped(_checked(path, "a directory")) for path in directories),
        *(b"@" + _escaped(_checked(path, "a directory")) for path in (shown_at,) if path),
        *(_escaped(_checked(value, f"argument {at}")) for at, value in enumerate(argv)),
        b"=",
    ]
    return b"".join(line + b"\n" for line in lines)


def problem(name: str) -> str:
    """Return why no container can be given the variable *name*, in words; empty when it can."""
    if not _NAME.fullmatch(name):
        return "is not a valid variable name: use letters, digits and _, not a digit first"
    if _SHELLS_OWN.fullmatch(name):
        return "is a variable that the shell in front of every container sets itself"
    return ""


def _kept(logs: LogFiles | None) -> Iterator[bytes]:
    """Yield what is said of the logs: before every value, see `run_script`."""
    if logs is None:
        return
    yield b"%" + _escaped(b"%d" % logs.most_bytes)
    if logs.mark:
        yield b":" + _escaped(_checked(logs.mark, "a file's name"))


def _environment(environ: Mapping[str, Value | None]) -> Iterator[bytes]:
    for name, value in environ.items():
        if found := problem(name):
            raise _impossible(f"{name!r} {found}")
        if value is None:
            yield b"-" + name.encode()
        else:
            yield name.encode() + b"=" + _escaped(_checked(value, name, len(name) + 1))


def _checked(value: Value, what: str, beside: int = 0) -> bytes:
    raw = _bytes(value, what)
    if b"\0" in raw:
        raise _impossible(f"{what} holds a NUL byte")
    if len(raw) + beside > _LONGEST:
        raise _impossible(f"{what} has {len(raw):,} bytes; Linux passes at most 131,071")
    return raw


def _bytes(value: Value, what: str = "the program") -> bytes:
    if isinstance(value, bytes):
        return value
    try:
        return value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise _impossible(f"{what} holds a lone surrogate, which is not text") from None


def _escaped(raw: bytes) -> bytes:
    return b"".join(b"%c" % byte if byte in _PLAIN else b"\\0%03o" % byte for byte in raw)


def _impossible(found: str) -> LaunchError:
    return LaunchError(
        "yarn",
        f"{found}; it cannot be passed to a container",
        next_step="Correct triton.env or triton.args.",
    )
