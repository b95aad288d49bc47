"""Fixtures for tests with real Tritons on this machine."""

from house import house

__all__ = ["house"]
