"""Everything here carries the marker ``observe``."""

from pathlib import Path

import pytest
from house import house

__all__ = ["house"]

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test of this folder, so that none is left out of its session."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.observe)
