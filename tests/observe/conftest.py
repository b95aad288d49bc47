"""Everything here carries the marker ``observe``."""

from pathlib import Path

import pytest
from house import house
from marking import mark_all

__all__ = ["house"]

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_all(items, HERE, pytest.mark.observe)
