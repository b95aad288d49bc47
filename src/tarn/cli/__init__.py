"""The command line: one verb a file; each parses, calls `tarn.cluster`, and prints."""

import sys
from collections.abc import Sequence

import click

from tarn.cli.argv import hide
from tarn.cli.verbs import root
from tarn.descriptors import shortage
from tarn.errors import ConfigErrors, TarnError
from tarn.plain import VisibleStream
from tarn.triton.folders import no_room

__all__ = ["main", "run"]

INTERRUPTED = 130


def main() -> None:
    """Run the command line of this process, and end it with the exit code."""
    _guard_terminal()
    if not hide(sys.argv[1:]):
        click.echo(
            "tarn: every user of this machine can read the api token in the arguments of this "
            "command until it ends: use TARN_TOKEN, or api.token: file:PATH",
            err=True,
        )
    sys.exit(run(sys.argv[1:]))


def _guard_terminal() -> None:
    """Let nothing that is printed, by whomever, be obeyed by the terminal.

    Names, reasons and errors come from models, followers and other users.
    """
    if sys.stdout.isatty():
        sys.stdout = VisibleStream(sys.stdout)
    if sys.stderr.isatty():
        sys.stderr = VisibleStream(sys.stderr)


def run(arguments: Sequence[str], environment: object = None) -> int:
    """Run one command line and return its exit code.

    What TARN says on purpose is printed as one line without a traceback; anything else is a bug
    and keeps it.

    Args:
        arguments: Without the program's name.
        environment: A `tarn.cluster.ClusterEnvironment`; None: those of this process.
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
    except BrokenPipeError:  # whoever read our output has seen enough
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
