"""Verbs that plugins bring."""

from collections.abc import Mapping

import click

from tarn.cli.talk import Talk
from tarn.cluster import Surroundings, here

__all__ = ["verbs"]


def verbs(ctx: click.Context) -> Mapping[str, click.Command]:
    """Return the verbs that plugins bring, by name; loads the plugins.

    They find their `ClientContext` in ``click.get_current_context().meta["tarn.context"]``.
    """
    around: Surroundings = ctx.obj or here()
    brought = click.Group()
    around.plugins().cli(brought)
    ctx.meta["tarn.context"] = around.context(Talk())
    return brought.commands
