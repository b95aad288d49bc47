"""The watcher for secrets: what it finds, since a check that cannot fail proves nothing."""

import base64
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest
from canaries import Canaries, canary, processes_watched
from hypothesis import given
from hypothesis import strategies as st

from tarn.testing.wait import until

SECRET = canary("token")


def leaks(data: bytes | str, secret: str | bytes = SECRET) -> bool:
    one = Canaries()
    one.add("it", secret)
    one.look("here", data)
    return bool(one.leaks)


@given(st.binary(max_size=7), st.binary(max_size=7), st.binary(min_size=24, max_size=40))
def test_it_is_found_in_base64_wherever_it_begins(
    before: bytes, after: bytes, secret: bytes
) -> None:
    """In both alphabets, in whatever it is embedded."""
    text = before + secret + after
    assert leaks(base64.b64encode(text), secret)
    assert leaks(base64.urlsafe_b64encode(text), secret)


@pytest.mark.parametrize(
    "text",
    [
        f"token={SECRET}",
        f"https://here/?token={quote(SECRET, safe='')}",
        f"Basic {base64.b64encode(f':{SECRET}'.encode()).decode()}",
        SECRET.encode().hex(),
    ],
    ids=["plain", "url", "password", "hexadecimal"],
)
def test_it_is_found_in_each_form(text: str) -> None:
    """Plain, in a URL, as a password of HTTP, in hexadecimal."""
    assert leaks(text)
    assert not leaks("another text")


def test_a_file_may_hold_it_only_where_that_is_said_and_nobody_else_reads_it(
    tmp_path: Path,
) -> None:
    """Name and mode both count."""
    one = Canaries()
    one.add("it", SECRET)
    (tmp_path / "mine").write_text(SECRET)
    (tmp_path / "mine").chmod(0o600)
    one.files(tmp_path, {"mine": ["it"]})
    assert not one.leaks
    one.files(tmp_path, {})
    assert {leak.where for leak in one.leaks} == {"mine (600)"}
    one.leaks.clear()
    (tmp_path / "mine").chmod(0o640)
    one.files(tmp_path, {"mine": ["it"]})
    assert {leak.where for leak in one.leaks} == {"mine (640)"}


def test_what_a_process_is_given_is_seen() -> None:
    """Its arguments and its environment; it lives until both were found."""
    one = Canaries()
    argv, environ = one.new("argv"), one.new("environ")
    program = [sys.executable, "-c", "import sys; sys.stdin.read()", argv]
    with (
        processes_watched(one, lambda _words: ((), ())),
        subprocess.Popen(program, stdin=subprocess.PIPE, env={"SECRET": environ}),
    ):
        until(lambda: {leak.name for leak in one.leaks} == {"argv", "environ"}, 60)
