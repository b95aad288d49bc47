"""Verbs that plugins bring."""

import click

from tarn.cli.talk import Talk
from tarn.cluster import Surroundings, here

__all__ = ["find"]


def find(group: click.Group, ctx: click.Context, name: str) -> click.Command | None:
    """Return the verb *name* of a plugin; every plugin adds its commands to *group* first.

    They find their `ClientContext` in ``click.get_current_context().meta["tarn.context"]``.
    """
    around: Surroundings = ctx.obj or here()
    if name not in group.commands:
        around.plugins().cli(group)
    ctx.meta["tarn.context"] = around.context(Talk())
    return group.commands.get(name)
