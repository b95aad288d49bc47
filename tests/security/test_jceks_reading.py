"""Keystores that `hadoop credential create` of Hadoop 3.4.2 made, read without Java."""

import logging
import shutil
from pathlib import Path
from typing import Any

import attrs
import jks
import pytest

from tarn.errors import ConfigError, NotFoundError, TarnError
from tarn.interfaces import Progress
from tarn.testing.context import client_context
from tarn_plugins.secrets.jceks import JceksSettings, tarn_secret_stores
from tarn_plugins.secrets.jceks import keystore as module
from tarn_plugins.secrets.jceks.store import JceksStore

KEYSTORES = Path(__file__).parents[1] / "keystores"
HF = "hf_gr\u00fc\u00dfe\u2603 "


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a copy with the default password, as Hadoop leaves one: for its owner alone."""
    return copied(tmp_path, "hadoop")


def copied(tmp_path: Path, name: str) -> Path:
    made = Path(shutil.copyfile(KEYSTORES / f"{name}.jceks", tmp_path / f"{name}.jceks"))
    made.chmod(0o600)
    return made


def store(path: Path, heard: list[Progress] | None = None, **given: Any) -> JceksStore:
    environ = given.pop("environ", {})
    context = client_context(path.parent)
    hear = (lambda _progress: None) if heard is None else heard.append
    context = attrs.evolve(context, environ={**context.environ, **environ}, progress=hear)
    made = tarn_secret_stores()["jceks"].create(JceksSettings(str(path), **given), context)
    assert isinstance(made, JceksStore)
    return made


def test_values_come_back_whole(path: Path) -> None:
    """Names in lower case, as Java keeps them; values beyond ASCII, with the space at the end."""
    one = store(path)
    assert one.names() == ("huggingface.token", "tarn.env.aws_key")
    assert one.read("huggingface.token").reveal() == HF
    assert one.read("tarn.env.AWS_Key").reveal() == "two words"


@pytest.mark.parametrize(
    ("password", "environ"),
    [
        ("default", {"HADOOP_CREDSTORE_PASSWORD": "s3same"}),
        ("env:PW", {"PW": "s3same", "HADOOP_CREDSTORE_PASSWORD": "other"}),
        ("file:{home}/pw", {}),
        ("file:~/pw", {"HOME": "{home}"}),
    ],
)
def test_a_password_comes_from_where_it_is_said(
    tmp_path: Path, password: str, environ: dict[str, str]
) -> None:
    """Hadoop's own variable, another one, or a file, whose last line end does not count."""
    (tmp_path / "pw").write_text("s3same\n")
    environ = {name: text.format(home=tmp_path) for name, text in environ.items()}
    one = store(
        copied(tmp_path, "password"), password=password.format(home=tmp_path), environ=environ
    )
    assert one.read("one").reveal() == "first"


@pytest.mark.parametrize(
    ("password", "environ", "code"),
    [
        ("default", {}, "TARN-3742"),
        ("env:PW", {"PW": "wrong-canary"}, "TARN-3742"),
        ("env:PW", {}, "TARN-3747"),
        ("file:/nowhere/pw", {}, "TARN-3747"),
    ],
)
def test_a_wrong_password_is_said_and_not_shown(
    tmp_path: Path, password: str, environ: dict[str, str], code: str
) -> None:
    """The seal of the keystore tells; nothing is half read."""
    one = store(copied(tmp_path, "password"), password=password, environ=environ)
    with pytest.raises(ConfigError) as caught:
        one.names()
    assert caught.value.code == code
    assert "wrong-canary" not in chain(caught.value)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (bytes.fromhex("308209f2020103308209b8"), "PKCS12"),
        (bytes.fromhex("3082042f30820406302106"), "BCFKS"),
        (bytes.fromhex("feedfeed0000000200000000"), "JKS keystore"),
        (b"huggingface.token=hf_canary", "is not a keystore"),
        (b"", "is empty"),
    ],
)
def test_another_kind_is_refused_by_its_name(tmp_path: Path, data: bytes, said: str) -> None:
    """PKCS12, BCFKS, JKS, or a text: in words, and never with what is in it."""
    path = tmp_path / "x.jceks"
    path.write_bytes(data)
    with pytest.raises(ConfigError, match=said) as caught:
        store(path).names()
    assert caught.value.code == "TARN-3741"
    assert "canary" not in chain(caught.value)


@pytest.mark.parametrize("length", [4, 12, 30, 400, 957])
def test_a_cut_keystore_is_damaged(
    path: Path, length: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Wherever it was cut; the parser's own dumps of what it holds are kept silent."""
    path.write_bytes(path.read_bytes()[:length])
    with caplog.at_level(logging.DEBUG), pytest.raises(ConfigError) as caught:
        store(path).names()
    assert caught.value.code == "TARN-3741"
    assert caplog.records == []


def test_a_changed_byte_is_seen(path: Path) -> None:
    """A keystore that somebody wrote into does not open."""
    data = bytearray(path.read_bytes())
    data[-40] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(ConfigError, match="a part of it was changed"):
        store(path).names()


def test_a_missing_file_and_an_unreadable_one_are_said(tmp_path: Path) -> None:
    """Code TARN-3740; a directory stands for what this user may not read."""
    for path in (tmp_path / "none.jceks", tmp_path):
        with pytest.raises(ConfigError) as caught:
            store(path).names()
        assert caught.value.code == "TARN-3740"


def test_a_missing_name_names_what_there_is(path: Path) -> None:
    """So a typo is found; no value is in it."""
    with pytest.raises(NotFoundError, match=r"There are: huggingface.token, tarn.env.aws_key"):
        store(path).read("hugingface.token")


def test_an_entry_with_another_password_is_named(path: Path, monkeypatch) -> None:
    """Java lets an entry have its own; Hadoop never makes one."""

    def no(*_args: object) -> None:
        raise jks.DecryptionFailureException("canary")

    monkeypatch.setattr(jks.SecretKeyEntry, "decrypt", no)
    with pytest.raises(ConfigError, match=r"'huggingface.token' has a different password"):
        store(path).names()


def test_a_value_that_is_no_text_is_refused(path: Path, monkeypatch) -> None:
    """An environment variable is one."""
    monkeypatch.setattr(
        module, "bytes", lambda _key: b"\xff\xfecanary", raising=False
    )  # what the entry holds
    with pytest.raises(ConfigError, match="is not text") as caught:
        store(path).names()
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(("mode", "notes"), [(0o600, 0), (0o640, 1), (0o604, 1)])
def test_a_keystore_that_others_may_read_is_noted(path: Path, mode: int, notes: int) -> None:
    """The default password guards against nobody, so the mode must."""
    path.chmod(mode)
    heard: list[Progress] = []
    store(path, heard).names()
    assert [("TARN-3746" in one.message) for one in heard] == [True] * notes


def test_it_is_read_once(path: Path) -> None:
    """Each reading costs 200,000 rounds a secret; the answers are of one moment."""
    one = store(path)
    one.names()
    path.unlink()
    assert one.read("huggingface.token").reveal() == HF


def chain(error: BaseException | None) -> str:
    """Return the texts of an error and of all its causes."""
    texts = []
    while error is not None:
        texts.append(str(error) if isinstance(error, TarnError) else repr(error))
        error = error.__cause__
    return " ".join(texts)
