"""Tests of one folder carry one marker, so that none is left out of its session."""

from pathlib import Path

import pytest


def mark_all(items: list[pytest.Item], folder: Path, mark: pytest.MarkDecorator) -> None:
    """Mark each of *items* that lies below *folder*."""
    for item in items:
        if item.path.is_relative_to(folder):
            item.add_marker(mark)
