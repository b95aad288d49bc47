"""One address, many Tritons: what a client sees must be what one Triton would have said.

The servers start once for the session (with pytest-xdist: once for each worker that needs them).
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from asking import ask
from house import until
from marking import mark_all
from one_address import Addresses, SharedAddress, no_haproxy, shared_address
from one_triton_models import MODELS, repository
from servers.debian_packages import PackagesMissingError
from servers.perf_analyzer import PerfAnalyzer, perf_analyzer
from servers.triton import needed, real_triton


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_all(items, Path(__file__).parent, pytest.mark.one_triton)
    for mark in needed:
        mark_all(items, Path(__file__).parent, mark)


@pytest.fixture(scope="session")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    """One Triton with every model, as its users start it."""
    root = tmp_path_factory.mktemp("alone")
    with real_triton(root / "triton", 5, models=repository(root)) as (_, endpoint):
        until(lambda: _all_ready(endpoint.http_port), 120, "every model")
        yield Addresses(f"127.0.0.1:{endpoint.http_port}", f"127.0.0.1:{endpoint.grpc_port}")


def _all_ready(port: int) -> bool:
    _, _, body = ask(port, "POST", "/v2/repository/index")
    return all(row.get("state") == "READY" for row in json.loads(body))


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedAddress]:
    """A fleet of two with every model, behind one HAProxy."""
    if reason := no_haproxy():
        pytest.skip(reason)
    names = sorted(path.name for path in MODELS.iterdir())
    # A test unloads a model; the others serve on.
    explicit = {"serve": names, "control": "explicit", "require": "any"}
    with shared_address(tmp_path_factory.mktemp("shared"), "shared", models=explicit) as one:
        yield one


@pytest.fixture(scope="session")
def perf() -> PerfAnalyzer:
    """NVIDIA's load client."""
    try:
        return perf_analyzer()
    except PackagesMissingError as error:
        pytest.skip(str(error))
