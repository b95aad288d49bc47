"""What lint says, and what a real Triton does with the same repository."""

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from lint_cases import Case, cases
from test_fake_is_like_triton import ask, free_ports

from tarn.config import environ
from tarn.domain import Endpoint
from tarn_plugins.runtime.local.binary import prepare

pytestmark = pytest.mark.triton

DEADLINE_S = 60.0
GOOD = {name: case for name, case in cases("good").items() if "loads" in case.expected}
BROKEN = {name: case for name, case in cases("broken").items() if "unavailable" in case.expected}


@contextmanager
def triton(top: Path, repository: Path) -> Iterator[Endpoint]:
    """Run a real Triton over *repository*, as TARN starts it."""
    program = prepare(None, environ(), top / "cache")
    ports = free_ports()
    argv = [program.path, f"--model-repository={repository}", "--exit-timeout-secs=1"]
    if program.backend_directory:
        argv.append(f"--backend-directory={program.backend_directory}")
    for name, port in zip(("http", "grpc", "metrics"), ports, strict=True):
        argv += [f"--{name}-port={port}", f"--{name}-address=127.0.0.1"]
    argv += ["--exit-on-error=false", "--strict-readiness=false"]
    env = {**environ(), "LD_LIBRARY_PATH": ":".join(program.library_path)}
    with (top / "triton.stderr").open("wb") as log:
        process = subprocess.Popen(argv, stderr=log, stdout=log, env=env, start_new_session=True)
    with process:
        try:
            yield Endpoint("127.0.0.1", *ports)
        finally:
            process.terminate()
            try:
                process.wait(timeout=15)
            except subprocess.TimeoutExpired:
                process.kill()


def states(endpoint: Endpoint) -> dict[str, str]:
    """Return model to state, once Triton answers: it does when every load has ended."""
    end_s = time.monotonic() + DEADLINE_S
    while time.monotonic() < end_s:
        try:
            status, _, body = ask(endpoint.http_port, "POST", "/v2/repository/index")
        except OSError:
            pause()
            continue
        if status == 200:
            return {model["name"]: model.get("state", "UNAVAILABLE") for model in rows(body)}
    raise AssertionError("Triton did not start")


def pause() -> None:
    import threading  # noqa: PLC0415 (only here)

    threading.Event().wait(0.05)


def rows(body: bytes) -> list[dict[str, Any]]:
    return json.loads(body)


@pytest.mark.parametrize("name", GOOD)
def test_what_lint_calls_good_loads(name: str, tmp_path: Path) -> None:
    """Every model of the repository is READY."""
    place = GOOD[name].build(tmp_path)
    with triton(tmp_path, place) as endpoint:
        assert set(states(endpoint).values()) == {"READY"}


@pytest.mark.parametrize("name", BROKEN)
def test_what_lint_calls_an_error_does_not_load(name: str, tmp_path: Path) -> None:
    """The model that the finding is about is UNAVAILABLE, or not even listed."""
    case: Case = BROKEN[name]
    place = case.build(tmp_path)
    with triton(tmp_path, place) as endpoint:
        assert states(endpoint).get(case.expected["unavailable"], "UNAVAILABLE") == "UNAVAILABLE"
