"""What a master makes of the keytab that it was brought."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tarn.errors import LaunchError
from tarn.plain.structure import to_record
from tarn_plugins.runtime.yarn import keytab
from tarn_plugins.runtime.yarn.keytab import Renewal
from tarn_plugins.runtime.yarn.master import application as module
from tarn_plugins.runtime.yarn.messages import Submitted


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A master's directory, with no Java behind it."""
    told = Submitted("hdfs://nn/tarn/a", "python3", principal="svc@R")
    (tmp_path / "yarn.json").write_text(json.dumps(to_record(told)))
    (tmp_path / keytab.NAME).write_bytes(b"\x05\x02")
    users = SimpleNamespace(setConfiguration=lambda _conf: None)
    monkeypatch.setattr(module, "load", lambda _name: users)
    monkeypatch.setattr(module, "_conf", lambda: None)
    monkeypatch.setattr(module, "KDC_WAIT_S", 0.2)
    monkeypatch.setattr(module, "_KDC_RETRY_S", 0.01)
    return tmp_path


def failing(monkeypatch: pytest.MonkeyPatch, *codes: str) -> list[Any]:
    """Let each log-in fail with the next code; return who tried, and with what."""
    tried: list[Any] = []
    left = list(codes)

    def keep_on(principal: str, path: Path) -> None:
        tried.append((principal, path))
        if left:
            raise LaunchError("yarn", "no KDC answers", code=left.pop(0))

    monkeypatch.setattr(module.login, "keep_on", keep_on)
    return tried


def test_one_log_in_serves_the_process(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """State store and runtime ask for it, in whatever order."""
    tried = failing(monkeypatch)
    assert module._renewal(directory) == module._renewal(directory) == Renewal("svc@R")
    assert tried == [("svc@R", directory / keytab.NAME)]


def test_a_silent_kdc_is_waited_for(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a while; every other refusal stands at once, and the master goes on without."""
    tried = failing(monkeypatch, keytab.KDC_SILENT, keytab.KDC_SILENT)
    assert module._renewal(directory).works
    assert len(tried) == 3


@pytest.mark.parametrize("codes", [("TARN-3765",), (keytab.KDC_SILENT,) * 1000])
def test_a_master_goes_on_without_its_key(
    directory: Path, monkeypatch: pytest.MonkeyPatch, codes: tuple[str, ...]
) -> None:
    """With the tokens that it has, and says why."""
    failing(monkeypatch, *codes)
    assert module._renewal(directory) == Renewal("svc@R", "no KDC answers")


def test_without_a_keytab_nobody_logs_in(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name alone proves nothing."""
    tried = failing(monkeypatch)
    (directory / keytab.NAME).unlink()
    assert module._renewal(directory) == Renewal()
    assert not tried
