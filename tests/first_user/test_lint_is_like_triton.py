"""What lint says, and what a real Triton does with the same repository."""

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from asking import ask, free_ports
from lint_cases import cases

from tarn.config import environ
from tarn.domain import Endpoint
from tarn.triton.binary import prepare

pytestmark = pytest.mark.triton

DEADLINE_S = 60.0
GOOD = {name: case for name, case in cases("good").items() if "loads" in case.expected}
BROKEN = {name: case for name, case in cases("broken").items() if "unavailable" in case.expected}
ALONE = [name for name, case in BROKEN.items() if len(list((case.path / "models").iterdir())) == 1]
"""Those of one directory, which may be called anything."""

SAMPLE = (
    "checkpoints-at-top",
    "ensemble-in-a-circle",
    "ensemble-with-a-missing-model",
    "ensemble-with-an-unused-tensor",
    "ensemble-with-two-types",
)
"""Of the others some: each needs a Triton of its own."""


@contextmanager
def triton(top: Path, *repositories: Path) -> Iterator[Endpoint]:
    """Run a real Triton over *repositories*, as TARN starts it."""
    program = prepare(None, environ(), top / "cache")
    ports = free_ports()
    argv = [program.path, *(f"--model-repository={each}" for each in repositories)]
    argv.append("--exit-timeout-secs=1")
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


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return model to state, from one Triton over every good repository: no two share a name."""
    top = tmp_path_factory.mktemp("good")
    places = [case.build(top / name) for name, case in GOOD.items()]
    with triton(top, *places) as endpoint:
        return states(endpoint)


@pytest.mark.parametrize("name", GOOD)
def test_what_lint_calls_good_loads(name: str, good: dict[str, str], tmp_path: Path) -> None:
    """Every model of the repository is READY."""
    place = GOOD[name].build(tmp_path)
    models = [path.name for path in place.iterdir() if path.is_dir()]
    assert {model: good.get(model) for model in models} == dict.fromkeys(models, "READY")


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return model to state, from one Triton over every broken model that stands alone.

    Each is named after its case.
    """
    top = tmp_path_factory.mktemp("together")
    (top / "models").mkdir()
    for name in ALONE:
        case = BROKEN[name]
        built = case.build(top / name) / case.expected["unavailable"]
        built.rename(top / "models" / name)
    with triton(top, top / "models") as endpoint:
        return states(endpoint)


@pytest.mark.parametrize("name", ALONE)
def test_a_model_that_lint_calls_broken_does_not_load(name: str, together: dict[str, str]) -> None:
    """It is UNAVAILABLE, or not even listed."""
    assert together.get(name, "UNAVAILABLE") == "UNAVAILABLE"


@pytest.mark.parametrize("name", SAMPLE)
def test_a_repository_that_lint_calls_broken_lacks_a_model(name: str, tmp_path: Path) -> None:
    """The model that the finding is about is UNAVAILABLE, or not even listed."""
    case = BROKEN[name]
    with triton(tmp_path, case.build(tmp_path)) as endpoint:
        assert states(endpoint).get(case.expected["unavailable"], "UNAVAILABLE") == "UNAVAILABLE"
