"""The process with the JVM, from the side that asks; what stands in for it is Python."""

import json
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest

from tarn.domain import Secret
from tarn.errors import ConfigError, ProviderError, ProviderMissingError, TimedOutError
from tarn.testing.context import client_context
from tarn_plugins.secrets.jceks.store import KeystoreProcess

TELLS = """
import json, os, sys
order = json.load(sys.stdin)
print(json.dumps({"answer": [sys.argv[1:], dict(os.environ), order]}))
"""


def java(tmp_path: Path, script: str, patience_s: float = 30.0, **environ: str) -> KeystoreProcess:
    context = client_context(tmp_path)
    context = attrs.evolve(context, environ={**context.environ, **environ})
    return KeystoreProcess(context, None, None, ("PW",), patience_s, (sys.executable, "-c", script))


def refusal(tmp_path: Path, **told: str) -> KeystoreProcess:
    parts = {"kind": "provider", "found": "f", "code": "TARN-3744", "right": "", "next_step": ""}
    answer = json.dumps({"error": {**parts, **told}})
    return java(tmp_path, f"import sys; sys.stdin.read(); print({answer!r})")


def ask(one: KeystoreProcess, **parts: Any) -> Any:
    return one.ask("write", "hdfs:///x", Secret("pw-canary"), value="canary", **parts)


def test_secrets_go_through_the_pipe_only(tmp_path: Path) -> None:
    """Value and password are in the question; arguments and environment know neither."""
    one = java(tmp_path, TELLS, HADOOP_CREDSTORE_PASSWORD="pw-canary", PW="pw-canary", KEPT="1")
    argv, environ, order = ask(one, name="hf")
    assert order["parts"] == {"value": "canary", "name": "hf"}
    assert order["password"] == "pw-canary"
    assert environ["KEPT"] == "1"
    assert "canary" not in json.dumps([argv, environ, order["environ"]])
    assert "canary" not in repr(one)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("config", ConfigError), ("provider", ProviderError), ("missing", ProviderMissingError)],
)
def test_an_error_arrives_as_what_it_was(
    tmp_path: Path, kind: str, expected: type[Exception]
) -> None:
    """A wrong password is the user's to mend, a lost name node is not."""
    with pytest.raises(expected, match="it was so"):
        ask(refusal(tmp_path, kind=kind, found="it was so"))


def test_a_process_that_dies_leaves_its_last_words(tmp_path: Path) -> None:
    """Exit code and the end of what it said; no part of the question."""
    script = "import sys; sys.stdin.read(); sys.exit('libjvm.so: cannot open')"
    with pytest.raises(ProviderError, match=r"(?s)code 1 .*cannot open") as caught:
        ask(java(tmp_path, script))
    assert "canary" not in str(caught.value)


def test_one_that_hangs_is_given_up(tmp_path: Path) -> None:
    """After its time it is killed; the error holds no question."""
    with pytest.raises(TimedOutError, match=r"within 0.3 s") as caught:
        ask(java(tmp_path, "import threading; threading.Event().wait(30)", 0.3))
    assert caught.value.__cause__ is None
