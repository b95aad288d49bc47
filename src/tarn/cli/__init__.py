"""The command line: each verb parses, calls `tarn.cluster`, and prints."""

import itertools
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from tarn.cli.verbs import root
from tarn.descriptors import shortage
from tarn.errors import ConfigErrors, TarnError
from tarn.plain import VisibleStream
from tarn.triton.folders import no_room

__all__ = ["hide", "main", "run", "secrets_in"]

INTERRUPTED = 130
_OPTIONS = ("--token", "-t")
_PROC = Path("/proc/self")
# ``arg_start`` and ``arg_end`` in ``/proc/PID/stat``, counted behind the process's name.
_ARGUMENTS_BEGIN, _ARGUMENTS_END = 45, 46


def main() -> None:
    """Run the command line of this process, and end it with the exit code."""
    # Control characters are escaped before they reach a terminal: names, reasons and errors come
    # from models, followers and other users.
    if sys.stdout.isatty():
        sys.stdout = VisibleStream(sys.stdout)
    if sys.stderr.isatty():
        sys.stderr = VisibleStream(sys.stderr)
    if not hide(sys.argv[1:]):
        click.echo(
            "tarn: every user of this machine can read the api token in the arguments of this "
            "command until it ends: use TARN_TOKEN, or api.token: file:PATH",
            err=True,
        )
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str], environment: object = None) -> int:
    """Run one command line and return its exit code.

    A `TarnError` is printed as one line without a traceback; any other exception is a bug.

    Args:
        arguments: The arguments, without the program's name.
        environment: A `tarn.cluster.ClusterEnvironment`; None: that of this process.
    """
    try:
        code = root.main(list(arguments), prog_name="tarn", standalone_mode=False, obj=environment)
    except TarnError as error:
        _complain(error)
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("tarn: interrupted", err=True)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output, such as `head`, has ended
        sys.stdout = sys.stderr
        return 1
    except OSError as error:
        lacking: TarnError | None = no_room(error)
        if lacking is None and (lack := shortage(error)):
            lacking = TarnError(lack, where="this machine")
        if lacking is None:
            raise
        code = lacking.exit_code
        _complain(lacking)
    return code if isinstance(code, int) else 0


def _complain(error: TarnError) -> None:
    for one in error.errors if isinstance(error, ConfigErrors) else (error,):
        click.echo(f"tarn: [{one.code}] {one}", err=True)
    for note in getattr(error, "__notes__", ()):
        click.echo(note, err=True)


def secrets_in(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the values of ``--token`` and ``-t``, in each way of writing them."""
    # Split, since `tarn compat` takes a whole command of the Java TARN as one argument.
    words = [part for argument in arguments for part in (argument.split() or [argument])]
    found = []
    for word, following in itertools.pairwise((*words, "")):
        name, equals, value = word.partition("=")
        if word in _OPTIONS:
            found.append(following)
        elif name == "--token" and equals:
            found.append(value)
        elif word.startswith("-t") and len(word) > len("-t"):
            found.append(word.removeprefix("-t").removeprefix("="))
    return tuple(filter(None, found))


def hide(arguments: Sequence[str], proc: Path = _PROC) -> bool:
    """Overwrite the api token in this process's own arguments.

    Returns:
        Whether no token can be read in them any more.
    """
    # Every user can read a process's arguments (``ps``, ``/proc/PID/cmdline``) as long as it runs,
    # and `tarn up` waits for minutes. Linux lets a process overwrite them, so the token is visible
    # only for the tenth of a second that Python takes to start.
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
    """Return one argument with its secrets replaced by as many stars."""
    for secret in sorted(hidden, key=len, reverse=True):
        alone = word in (secret, b"--token=" + secret, b"-t" + secret, b"-t=" + secret)
        if secret.strip(b"*") and (alone or b" " in word):
            word = word.replace(secret, b"*" * len(secret))
    return word
