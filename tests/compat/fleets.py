"""A house for fleets of fake Tritons under a real master."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from contract.fake_binary import fake_models, fake_triton
from house import House, clear

__all__ = ["house", "spec"]


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    one = House(tmp_path)
    yield one
    clear(one)


def spec(house: House, instances: int = 1, **keys: object) -> str:
    """Write a spec for fake Tritons; return its path."""
    return house.spec(
        "w",
        models={"repository": fake_models(house.root).repository},
        triton={"binary": fake_triton(house.root).binary},
        replicas={"min": instances, "max": 4},
        **keys,
    )
