"""The secret by which Knox proves itself to HAProxy."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from tarn.errors import ConfigError
from tarn_plugins.discovery.knox.commands import knox
from tarn_plugins.discovery.knox.rendering import SERVICE, VARIABLE, Balancers, files, gate

SECRET = "gate-of-knox-0123456789abcdef"
WORDS = ["config", "--url", "http://lb:8080"]


def test_it_stands_in_one_file_that_nobody_else_may_read(tmp_path: Path) -> None:
    """Also where the file was there before, and open."""
    secret, out = tmp_path / "gate", tmp_path / "out"
    secret.write_text(f"{SECRET}\n")
    words = [*WORDS, "--gate-file", str(secret), "--out", str(out)]
    (out / SERVICE).parent.mkdir(parents=True)
    (out / SERVICE).touch(0o666)
    done = CliRunner().invoke(knox, words)
    assert (done.exit_code, done.exception) == (0, None)
    holding = [path for path in out.rglob("*") if path.is_file() and SECRET in path.read_text()]
    assert holding == [out / SERVICE]
    assert (out / SERVICE).stat().st_mode & 0o777 == 0o600
    assert f"X-Tarn-Gate:{SECRET}" in (out / SERVICE).read_text()
    shown = CliRunner().invoke(knox, [*words, "--dry-run"]).output
    assert SECRET not in shown
    assert "X-Tarn-Gate:***" in shown


def test_without_a_secret_nothing_is_added() -> None:
    """Knox then passes on what it passed on before."""
    assert "requestAppendHeaders" not in files(Balancers(("http://lb:1",)))[SERVICE]


def test_a_file_goes_before_the_variable(tmp_path: Path) -> None:
    """Either is read; neither is an error."""
    file = tmp_path / "gate"
    file.write_text(SECRET)
    other = "another-secret-0123456789"
    assert gate(file, {VARIABLE: other}) == SECRET
    assert gate(None, {VARIABLE: f" {other}\n"}) == other
    assert gate(None, {}) == gate(None, {VARIABLE: " "}) == ""


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """With the reason."""
    with pytest.raises(ConfigError, match="No such file"):
        gate(tmp_path / "none", {})


@given(st.text())
def test_what_knox_would_cut_is_refused_and_never_shown(text: str) -> None:
    """Blanks, colons, commas, other scripts; too short."""
    meant = text.strip()
    if not meant or re.fullmatch(r"[A-Za-z0-9_-]{24,128}", meant):
        assert gate(None, {VARIABLE: text}) == meant
        return
    with pytest.raises(ConfigError) as raised:
        gate(None, {VARIABLE: text})
    assert raised.value.code == "TARN-3343"
    assert len(meant) < 9 or meant not in str(raised.value)
