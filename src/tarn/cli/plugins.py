"""`tarn plugins`."""

import click

from tarn.cli.options import form_option, pass_around
from tarn.cli.show import columns, emit
from tarn.cluster import Surroundings
from tarn.plugins import KINDS


@click.command("plugins")
@pass_around
@form_option
def command(around: Surroundings, *, form: str) -> None:
    """List what the installed plugins offer, and which plugin offers it."""
    offered = around.plugins()
    rows = [
        {
            "kind": kind,
            "name": name,
            "plugin": offered.owner(kind, name),
            "needs": f"tarn[{factory.extra}]" if factory.extra else "",
            "summary": factory.summary,
        }
        for kind in KINDS
        for name, factory in offered.offers(kind).items()
    ]
    heads = ("KIND", "NAME", "PLUGIN", "NEEDS", "SUMMARY")
    emit(rows, form, lambda: columns(heads, (tuple(row.values()) for row in rows)))
