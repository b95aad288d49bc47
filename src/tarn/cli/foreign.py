"""Verbs that plugins bring."""

import click

from tarn.cluster import Surroundings, here

__all__ = ["add"]


def add(group: click.Group, surroundings: Surroundings | None) -> None:
    """Let every plugin add its commands to *group*."""
    (surroundings or here()).plugins().cli(group)
