"""A fleet of three real Tritons behind a HAProxy, new for each fault.

What replaced a sick one waits longer for its own replacement, so no fault may follow another.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from gray_fleet import GrayFleet, staged


@pytest.fixture
def gray(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[GrayFleet]:
    with staged(tmp_path, getattr(request, "param", {})) as fleet:
        yield fleet
