"""A keystore on this machine keeps the promises of `SecretStore`: Java writes it, pyjks reads it.

The one that Hadoop reads has its turn in the session ``yarn``.
"""

from pathlib import Path
from typing import Any

import pytest
from house import House

from tarn.interfaces import SecretStore
from tarn.testing.context import client_context
from tarn.testing.contracts import SecretStoreContract
from tarn.testing.strategies import for_any, texts
from tarn_plugins.secrets import jceks


class TestJceks(SecretStoreContract):
    factory = jceks.tarn_secret_stores()["jceks"]
    empty = False

    def make(self, tmp_path: Path) -> SecretStore:
        made = jceks.JceksSettings(str(tmp_path / "x.jceks"))
        return self.factory.create(made, client_context(tmp_path))

    @for_any(examples=4, value=texts)  # each is a process with a JVM
    def test_keeps_any_text(self, tmp_path: Path, value: str) -> None:
        """Empty, with line ends, beyond ASCII: a value is not interpreted."""
        super().test_keeps_any_text.hypothesis.inner_test(self, tmp_path, value)


CANARY = "hf_canary-4711 \u2603"
STORE: dict[str, Any] = {"use": "jceks", "options": {"path": "hf.jceks"}}


@pytest.fixture
def spec(house: House) -> str:
    return house.spec("fleet", secrets=[STORE])


def put(house: House, spec: str, name: str, value: str, *more: str, **environ: str):
    file = house.root / "value"
    file.write_text(value)
    return house.tarn("secrets", "put", name, "-f", spec, "--from", str(file), *more, **environ)


def test_the_command_line_writes_lists_and_checks(house: House, spec: str) -> None:
    """`put`, `list`, `check`: names and variables, and a value nowhere."""
    said = ""
    for name, value in (("HuggingFace.Token", f"{CANARY}\n"), ("tls", CANARY)):
        done = put(house, spec, name, value)
        assert done.returncode == 0, done.stderr
        said += done.stdout + done.stderr
    file = house.root / "hf.jceks"
    assert file.stat().st_mode & 0o777 == 0o600
    listed = house.tarn("secrets", "list", "-f", spec)
    checked = house.tarn("secrets", "check", "-f", spec, "-o", "json")
    assert (listed.returncode, checked.returncode) == (0, 0), listed.stderr + checked.stderr
    assert [line.split() for line in listed.stdout.splitlines()[1:]] == [
        ["huggingface.token", "HUGGING_FACE_HUB_TOKEN,", "HF_TOKEN", "secrets[0]"],
        ["tls", "-", "secrets[0]"],
    ]
    assert '"variable": "HF_TOKEN"' in checked.stdout
    assert "tls" not in checked.stdout
    assert "4711" not in said + listed.stdout + checked.stdout + listed.stderr + checked.stderr


def test_a_keystore_that_does_not_open_is_not_written(house: House, spec: str) -> None:
    """With another password, or of another kind: refused, the file stays, no value is shown."""
    assert put(house, spec, "a", CANARY).returncode == 0
    file = house.root / "hf.jceks"
    for content, environ, code in (
        (file.read_bytes(), {"HADOOP_CREDSTORE_PASSWORD": "other-4711"}, "TARN-3742"),
        (file.read_bytes()[:-30], {}, "TARN-3741"),
        (bytes.fromhex("308209f2020103308209b8"), {}, "TARN-3741"),
    ):
        file.write_bytes(content)
        done = put(house, spec, "b", CANARY, **environ)
        assert done.returncode != 0
        assert code in done.stderr
        assert "4711" not in done.stdout + done.stderr
        assert file.read_bytes() == content


def test_a_value_is_no_argument_and_comes_by_a_pipe(house: House, spec: str) -> None:
    """A second argument is wrong usage; nothing, or nothing but a line end, is not a value."""
    assert house.tarn("secrets", "put", "a", CANARY, "-f", spec).returncode == 2
    done = put(house, spec, "a", "\n")
    assert done.returncode == 2
    assert "holds no value" in done.stderr
    several = house.spec("two", secrets=[STORE, {**STORE, "options": {"path": "b.jceks"}}])
    assert "choose one with --store N" in put(house, several, "a", CANARY).stderr
    assert put(house, several, "a", CANARY, "--store", "1").returncode == 0
    assert (house.root / "b.jceks").exists()


def test_a_java_that_is_not_there_is_said(house: House) -> None:
    """Reading needs none; writing names where it looked."""
    store = {**STORE, "options": {"path": "hf.jceks", "java_home": "/nowhere"}}
    done = put(house, house.spec("fleet", secrets=[store]), "a", CANARY)
    assert done.returncode == 1
    assert "TARN-3122" in done.stderr
    assert "options.java_home" in done.stderr
    assert "4711" not in done.stderr
