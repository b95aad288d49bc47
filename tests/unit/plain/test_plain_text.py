"""What a person is told to paste into a shell does what it says, whatever the names are."""

import ast
import re
import shlex
from pathlib import Path

import tarn
from tarn.plain import pasted

SOURCE = Path(tarn.__file__).parents[1]
COMMAND = re.compile(
    r"(?:^|[`(': ])(?:klist|kinit|chmod|chown|curl|getent|openssl|nc|hdfs dfs)(?: [-\w+:]+)* '?$"
)
EXEMPT = {"sandbox", "testing", "cluster.py"}
"""What is run, not told; and a file that quotes its values before it makes the text."""
SAFE = {"pasted", "join", "quote"}


def test_every_word_comes_back_as_it_was() -> None:
    """The shell's own reading is the oracle."""
    words = ["curl", "-s", "http://h/v2/models/$(touch x)", "a b", "`id`", "it's", '"', "", "\n;ls"]
    assert shlex.split(pasted(*words)) == words
    assert pasted("klist", "-kt", Path("/etc/a.keytab")) == "klist -kt /etc/a.keytab"


def test_no_command_is_told_with_a_bare_value_in_it() -> None:
    """A value behind a command's name, in one text, goes through `pasted`."""
    found = []
    for path in [*SOURCE.glob("tarn/**/*.py"), *SOURCE.glob("tarn_plugins/**/*.py")]:
        if EXEMPT & set(path.parts):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.JoinedStr):
                found += [f"{path.name}:{node.lineno}" for bare in bare_values(node) if bare]
    assert found == []


def bare_values(text: ast.JoinedStr) -> list[bool]:
    """Return of each value behind a command whether it stands there as it is."""
    before, bare = "", []
    for part in text.values:
        if isinstance(part, ast.Constant):
            before += str(part.value)
            continue
        assert isinstance(part, ast.FormattedValue)
        called = part.value.func if isinstance(part.value, ast.Call) else None
        name = getattr(called, "attr", getattr(called, "id", ""))
        bare.append(bool(COMMAND.search(before)) and name not in SAFE)
        before += "…"
    return bare
