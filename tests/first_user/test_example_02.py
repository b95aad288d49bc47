"""Example 02 with real Tritons: the policy that a package brought scales what serves."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from house import House, clear
from workshop import EXAMPLE, workshop

pytestmark = pytest.mark.triton


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    one = House(tmp_path, workshop(tmp_path / "venv"))
    yield one
    clear(one)


def test_twelve_requests_at_once_grow_the_fleet_to_three(house: House) -> None:
    """As its README tells: install, run main.py, see the sizes and the policy's reason."""
    done = subprocess.run(
        [house.python, str(EXAMPLE / "main.py")],
        check=False, capture_output=True, text=True, timeout=200, cwd=house.root,
        env=house.environ,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    sizes, reason = done.stdout.splitlines()
    assert sizes.startswith("size -> 1 -> ")
    assert sizes.endswith(" -> 3")
    assert reason.endswith("requests at once, 4 for an instance")
