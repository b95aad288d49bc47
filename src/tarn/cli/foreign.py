"""Verbs that plugins bring."""

import click

from tarn.cli.talk import Talk
from tarn.cluster import Surroundings, here

__all__ = ["add"]


def add(group: click.Group, ctx: click.Context) -> None:
    """Let every plugin add its commands to *group*.

    They find their `ClientContext` in ``click.get_current_context().meta["tarn.context"]``.
    """
    around: Surroundings = ctx.obj or here()
    around.plugins().cli(group)
    ctx.meta["tarn.context"] = around.context(Talk())
