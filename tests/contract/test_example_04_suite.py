"""Example 04 as a plugin's author meets it: built, installed, tested, publishing a fleet."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from contract.fake_binary import fake_models, fake_triton
from house import House, clear, until
from workshop import DISCOVERY_EXAMPLE, workshop


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An environment with the example in it."""
    return workshop(tmp_path_factory.mktemp("workshop") / "venv", DISCOVERY_EXAMPLE)


@pytest.fixture
def house(tmp_path: Path, python: str) -> Iterator[House]:
    one = House(tmp_path, python)
    yield one
    clear(one)


def test_its_contract_is_kept(python: str) -> None:
    """The suite of `tarn.testing` finds nothing, over the installed package."""
    test = DISCOVERY_EXAMPLE / "tests" / "test_file_discovery.py"
    done = subprocess.run(
        [python, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null",
         "--rootdir", str(test.parent), str(test)],
        check=False, capture_output=True, text=True, timeout=100, cwd=test.parent,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert " 14 passed" in f" {done.stdout.splitlines()[-1]}", done.stdout


def test_a_fleet_stands_in_the_file_until_it_is_taken_down(house: House) -> None:
    kept = house.root / "fleet.json"
    path = house.spec(
        "w",
        models={"repository": fake_models(house.root).repository},
        triton={"binary": fake_triton(house.root).binary},
        replicas={"min": 2, "max": 2},
        discovery=[{"use": "file", "options": {"path": str(kept)}, "required": True}],
        drain={"timeout": "10s", "quiesce": "0s"},
    )
    started = house.tarn("up", "-f", path)
    assert started.returncode == 0, started.stderr
    until(lambda: kept.exists() and len(_instances(kept)) == 2, 30, "both instances in the file")
    served = {one["http"] for one in house.status("w")["instances"]}
    assert {f"{one['host']}:{one['http_port']}" for one in _instances(kept).values()} == served
    ended = house.tarn("down", "-c", "w")
    assert ended.returncode == 0, ended.stderr
    assert not kept.exists()


def _instances(kept: Path) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = json.loads(kept.read_text())["instances"]
    return found
