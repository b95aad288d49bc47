"""Takes an api token out of this process's command line, where every user can read it.

A word of a command line stays readable by all (``ps``, ``/proc/PID/cmdline``) for as long as the
process lives: `tarn up` waits for a fleet for minutes. On Linux a process may write over it. Until
then, for the tenth of a second that Python takes to start, it was there.
"""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

__all__ = ["hide", "secrets_in"]

_OPTIONS = ("--token", "-t")
_PROC = Path("/proc/self")
_ARGUMENTS_BEGIN, _ARGUMENTS_END = 45, 46
"""``arg_start`` and ``arg_end`` in ``/proc/PID/stat``, counted behind the process's name."""


def secrets_in(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the values of ``--token`` and ``-t``, however they are written.

    One argument may hold a whole command of the Java TARN, which `tarn compat` translates.
    """
    words = [part for argument in arguments for part in (argument.split() or [argument])]
    return tuple(value for value in _given(words) if value)


def _given(words: Sequence[str]) -> Iterator[str]:
    for word, following in itertools.pairwise((*words, "")):
        name, equals, value = word.partition("=")
        if word in _OPTIONS:
            yield following
        elif name == "--token" and equals:
            yield value
        elif word.startswith("-t") and len(word) > len("-t"):
            yield word.removeprefix("-t").removeprefix("=")


def hide(arguments: Sequence[str], proc: Path = _PROC) -> bool:
    """Write over the api token in this process's own arguments; return whether it is gone.

    True, too, where *arguments* hold none. False: this system lets nobody do it.
    """
    hidden = [word.encode("utf-8", "surrogateescape") for word in secrets_in(arguments)]
    if not hidden:
        return True
    try:
        fields = (proc / "stat").read_text("ascii", "replace").rpartition(")")[2].split()
        begin, end = (int(fields[number]) for number in (_ARGUMENTS_BEGIN, _ARGUMENTS_END))
        with (proc / "mem").open("r+b", buffering=0) as memory:
            memory.seek(begin)
            words = memory.read(end - begin)
            memory.seek(begin)
            memory.write(b"\0".join(_starred(word, hidden) for word in words.split(b"\0")))
        left = (proc / "cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError, IndexError):
        return False
    return all(_starred(word, hidden) == word for word in left)


def _starred(word: bytes, hidden: Sequence[bytes]) -> bytes:
    """Return one argument with what is secret in it starred, as long as it was."""
    for secret in sorted(hidden, key=len, reverse=True):
        alone = word in (secret, b"--token=" + secret, b"-t" + secret, b"-t=" + secret)
        if secret.strip(b"*") and (alone or b" " in word):
            word = word.replace(secret, b"*" * len(secret))
    return word
