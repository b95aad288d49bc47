"""A real master whose machine runs out of something; its Tritons are fakes."""

from pathlib import Path

import pytest
from marking import mark_all

FOLDER = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_all(items, FOLDER, pytest.mark.limits)
