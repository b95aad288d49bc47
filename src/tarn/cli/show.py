"""Results on stdout: as a table for people, as JSON or YAML for programs."""

import json
from collections.abc import Callable

import click

from tarn.cluster.table import cluster_table, columns, instance_table, moment
from tarn.config.readings import text_of

__all__ = ["cluster_table", "columns", "emit", "instance_table", "moment", "note"]


def emit(value: object, form: str, table: Callable[[], str]) -> None:
    """Print *value* in *form*; *table* renders it for people."""
    match form:
        case "json":
            text = json.dumps(value, indent=2, ensure_ascii=False, default=str)
        case "yaml":
            text = text_of(_plain(value)).rstrip()
        case _:
            text = table()
    if text:
        click.echo(text)


def _plain(value: object) -> object:
    """Return *value* in the few types that safe YAML knows."""
    return json.loads(json.dumps(value, default=str))


def note(text: str) -> None:
    """Say on stderr what the configuration was accepted with."""
    click.echo(f"note: {text} (TARN-2005)", err=True)
