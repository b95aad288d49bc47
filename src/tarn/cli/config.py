"""`tarn config`."""

from collections.abc import Mapping

import click

from tarn import config
from tarn.cli.options import form_option, pass_around
from tarn.cli.show import columns, emit
from tarn.cli.source import SpecSource, source_options
from tarn.cluster import ClusterEnvironment
from tarn.cluster.difference import flat


@click.group("config")
def command() -> None:
    """Explain the configuration, or describe what it may be."""


@command.command("explain")
@pass_around
@source_options
@form_option
def explain(around: ClusterEnvironment, *, source: SpecSource, form: str) -> None:
    """Show each value of the spec, and where it comes from."""
    loaded = source.load(around)
    rows = [
        {"key": key, "value": value, "origin": _origin(loaded.origins, key)}
        for key, value in flat(config.redact(config.dump(loaded.spec)))
    ]
    emit(
        rows, form, lambda: columns(("KEY", "VALUE", "FROM"), (tuple(row.values()) for row in rows))
    )


def _origin(origins: Mapping[str, str], key: str) -> str:
    """Return where *key* comes from: its own origin, or that of what holds it."""
    path = key
    while path not in origins and path:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return origins.get(path, "default")


@command.command("schema")
@pass_around
def schema(around: ClusterEnvironment) -> None:
    """Print the JSON Schema of tarn.yaml, with the settings of every installed plugin."""
    emit(config.schema(around.plugins()), "json", str)
