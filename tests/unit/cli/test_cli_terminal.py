"""Nothing that others wrote is obeyed by the terminal of whoever looks."""

import io
import json
import os
import pty
import subprocess
import sys

import pytest

from tarn.plain import VisibleStream, underlying, visible

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b8m\u202e\rready"
SHOWN = r"\x1b]0;owned\x07\x1b[2J\u009b8m\u202e\x0dready"
PROGRAM = """
import json, sys
import click
from tarn import cli
from tarn.cli.show import Talk
from tarn.errors import TarnError
from tarn.interfaces import Progress

evil = sys.argv[1]

@click.command()
def attacked():
    click.echo(f"state  {evil}")
    click.echo(click.style("ours", fg="red"), err=True)
    print(json.dumps({"reason": evil}, ensure_ascii=False))
    talk = Talk()
    talk(Progress("loading", evil, note=True))
    talk.done()
    error = TarnError(evil, where=evil, next_step=evil)
    error.add_note(evil)
    raise error

sys.argv, cli.root = ["tarn"], attacked
cli.main()
"""


def in_a_terminal(*command: str) -> str:
    """Return all that a program says to a terminal."""
    ours, theirs = pty.openpty()
    environ = {**os.environ, "TERM": "xterm", "PYTHONIOENCODING": "utf-8"}  # noqa: TID251
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environ) as done:
        os.close(theirs)
        said = b""
        while True:
            try:
                said += os.read(ours, 65536)
            except OSError:  # EIO: nobody has the other end any more
                break
        os.close(ours)
        done.wait(20)
    return said.decode()


def test_what_every_part_of_the_command_line_prints_is_shown() -> None:
    """Results, progress, errors and their notes, whoever prints them; ours may still draw."""
    said = in_a_terminal(sys.executable, "-c", PROGRAM, EVIL)
    assert said.count(SHOWN) == 6  # a state, a note; where, what, next step and note of the error
    (line,) = (line for line in said.splitlines() if line.startswith("{"))
    assert json.loads(line) == {"reason": EVIL}
    drawn = said.replace("\r\n", "\n").replace("\r\x1b[K", "")
    assert not [sign for sign in drawn if sign < " " and sign != "\n"]
    assert not [sign for sign in drawn if sign in "\x9b\u202e"]


def test_an_error_of_the_real_program_is_shown() -> None:
    said = in_a_terminal(sys.executable, "-m", "tarn", "help", EVIL.replace("\r", ""))
    assert "\x1b" not in said
    assert r"\x1b]0;owned" in said


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("plain\ttext\nläuft", "plain\ttext\nläuft"),
        ("a\x00b\x7fc", r"a\x00b\u007fc"),
        ("half \udc80", r"half \udc80"),
        ("left\u2066right\u2028", r"left\u2066right\u2028"),
    ],
)
def test_what_a_terminal_obeys_is_named(text: str, seen: str) -> None:
    assert visible(text) == seen
    assert visible(seen) == seen


def test_json_stays_json() -> None:
    """A program reads it: it escapes what a terminal would obey by itself."""
    said = json.dumps({"reason": EVIL}, ensure_ascii=False)
    assert json.loads(visible(said)) == {"reason": EVIL}


def test_the_stream_is_the_terminal_but_for_what_is_written() -> None:
    below = io.StringIO()
    stream = VisibleStream(below)
    assert stream.write("\x1b[2J") == len(r"\x1b[2J")
    assert (below.getvalue(), stream.isatty()) == (r"\x1b[2J", False)
    assert underlying(stream) is below  # type: ignore[arg-type]
    assert underlying(below) is below
