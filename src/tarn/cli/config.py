"""The verbs about tarn.yaml: `tarn config`, `tarn compat`."""

import click

from tarn import config
from tarn.cli.options import SpecSource, form_option, pass_around, source_options
from tarn.cli.show import columns, emit
from tarn.cluster import ClusterEnvironment
from tarn.cluster.start.launch import flat
from tarn.config import ALIASES, compat
from tarn.plugins import COMING


@click.command(
    "compat",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    short_help="Translate a command of the Java TARN.",
)
@click.option(
    "--options",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda ctx, _, asked: _list_options(ctx) if asked else None,
    help="List the options of the Java TARN that `tarn up` understands, and their keys.",
)
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="COMMAND")
def compat_command(*, words: tuple[str, ...]) -> None:
    """Print the tarn.yaml that is equivalent to a command of the Java TARN.

    COMMAND is the whole command line, preferably as one quoted text, with its variables in front:
    'ZK_ENSEMBLE=zk1:2181 yarn jar tarn.jar varga.tarn.yarn.Client --port 8000'. It is read, never
    executed. A comment marks options that come with a later part; options that no version will have
    are refused. A token or another secret is never printed.
    """
    given = compat.split_command(words[0]) if len(words) == 1 else list(words)
    click.echo(compat.translate(given, COMING), nl=False)


def _list_options(ctx: click.Context) -> None:
    """Print every option and variable of the Java TARN, and end the command."""
    rows = []
    for one in ALIASES:
        value = "" if one.is_flag or not one.declarations else " VALUE"
        rows.append((", ".join(one.declarations) + value, one.env or "", one.help, one.target))
    click.echo(columns(("OPTION", "ENVIRONMENT", "MEANING", "KEY IN tarn.yaml"), rows))
    ctx.exit()


@click.group("config")
def config_command() -> None:
    """Explain the configuration, or describe what it may be."""


@config_command.command("explain")
@pass_around
@source_options
@form_option
def explain(around: ClusterEnvironment, *, source: SpecSource, form: str) -> None:
    """Show each value of the spec, and where it comes from."""
    loaded = source.load(around)
    rows = []
    for key, value in flat(config.redact(config.dump(loaded.spec))):
        path = key  # a key without an origin has that of the mapping or list around it
        while path not in loaded.origins and path:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        origin = loaded.origins.get(path, "default")
        rows.append({"key": key, "value": value, "origin": origin})
    emit(
        rows, form, lambda: columns(("KEY", "VALUE", "FROM"), (tuple(row.values()) for row in rows))
    )


@config_command.command("schema")
@pass_around
def schema(around: ClusterEnvironment) -> None:
    """Print the JSON Schema of tarn.yaml, with the settings of every installed plugin."""
    emit(config.schema(around.plugins()), "json", str)
