"""`tarn up --dry-run` with the real local runtime; `dry_run.txt` is what it prints."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from fake_fleet import repository

from tarn import plugins
from tarn.cli import run
from tarn.cluster import ClusterEnvironment

GOLDEN = Path(__file__).parent / "dry_run.txt"
SPEC = {
    "name": "demo",
    "models": {"repository": "models", "serve": ["echo"], "control": "explicit"},
    "triton": {
        "binary": "tritonserver",
        "grpc_port": 0,
        "args": {"http-restricted-api": "model-repository:admin-key=verysecret"},
        "env": {"HF_TOKEN": "verysecret", "OMP_NUM_THREADS": "4", "ODD": "b c $(id)"},
    },
    "instance": {"resources": {"vcores": 3, "memory": "64MiB"}},
    "replicas": {"min": 2},
}

Tarn = Callable[..., tuple[int, str, str]]


@pytest.fixture
def tarn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Tarn:
    """Run a command line in an empty home; return its exit code, stdout and stderr."""
    folder = tmp_path / "demo"
    repository(folder)
    (folder / "tarn.yaml").write_text(yaml.safe_dump(SPEC, sort_keys=False))
    program = folder / "tritonserver"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    monkeypatch.chdir(folder)
    around = ClusterEnvironment(
        {"HOME": str(tmp_path / "home"), "PATH": "/nowhere", "MAX_CONTAINERS": "5"}, plugins.load
    )

    def command(*arguments: str) -> tuple[int, str, str]:
        code = run(arguments, around)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return command


def normal(text: str, tmp_path: Path) -> str:
    """Return *text* without what differs between two machines; columns keep their order."""
    text = text.replace(str(tmp_path), "TMP")
    text = re.sub(r"tarn_[0-9a-f]{8}_", "tarn_HASH_", text)
    return re.sub(r"(?<=\S) {2,}(?=\S)", "  ", text)


def test_it_prints_spec_command_environment_ask_and_files(tarn: Tarn, tmp_path: Path) -> None:
    """Line by line as in the file beside this test."""
    code, out, _ = tarn("up", "--dry-run", "--port", "8000")
    assert code == 0
    assert normal(out, tmp_path) == GOLDEN.read_text("utf-8")


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_programs_get_the_same(tarn: Tarn, tmp_path: Path, form: str) -> None:
    """Every part under its name."""
    code, out, _ = tarn("up", "--dry-run", "-o", form)
    plan: dict[str, Any] = json.loads(out) if form == "json" else yaml.safe_load(out)
    assert code == 0
    assert list(plan) == [
        "name", "running", "spec", "origins", "commands", "environment", "ask", "files", "findings",
    ]  # fmt: skip
    assert plan["origins"]["replicas.min"].startswith("tarn.yaml:")
    assert plan["origins"]["replicas.max"] == "environment MAX_CONTAINERS"
    assert plan["commands"][0][0] == str(tmp_path / "demo" / "tritonserver")
    assert plan["ask"]["initial"] == {"vcores": 6, "memory_mib": 128, "gpus": 0}
    assert plan["findings"] == []


@pytest.mark.parametrize("form", ["table", "json", "yaml"])
def test_no_secret_is_printed(tarn: Tarn, form: str) -> None:
    """Neither of the environment, nor of the arguments, nor the api token."""
    _, out, err = tarn("up", "--dry-run", "-o", form, "--token", "verysecret-token")
    assert "verysecret" not in out + err


def test_it_starts_nothing_and_writes_nothing(tarn: Tarn, tmp_path: Path) -> None:
    """Not even the home is made."""
    before = sorted(tmp_path.rglob("*"))
    tarn("up", "--dry-run")
    assert sorted(tmp_path.rglob("*")) == before


def test_what_would_fail_is_found_and_decides_the_exit_code(tarn: Tarn) -> None:
    """The rest is printed all the same; 2 for what was written, 1 for what the machine lacks."""
    code, out, _ = tarn("up", "--dry-run", "--set", "models.serve=[none]")
    assert code == 2
    assert "! [TARN-2203]" in out
    code, out, _ = tarn("up", "--dry-run", "--set", "triton.binary=/nowhere/tritonserver")
    assert code == 1
    assert "! [TARN-3101]" in out
    assert "\n  tritonserver\n" in out


def test_a_repository_to_be_copied_is_not_copied(tarn: Tarn, tmp_path: Path) -> None:
    """So its place is a guess, and looks like one; a password in the address is masked."""
    uri = "memory://user:verysecret@host/models"
    code, out, _ = tarn("up", "--dry-run", "-o", "json", "--set", f"models.repository={uri}")
    assert code == 0
    plan = json.loads(out)
    assert plan["files"]["models"] == "<copy of memory://***@host/models>"
    assert "--model-repository=<copy of memory://***@host/models>" in plan["commands"][0]
