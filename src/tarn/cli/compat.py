"""`tarn compat`."""

import click

from tarn.cli.show import columns
from tarn.config import ALIASES, Alias, commandline, compat
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
    callback=lambda ctx, _, asked: _list(ctx) if asked else None,
    help="List the options of the Java TARN that `tarn up` understands, and their keys.",
)
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="COMMAND")
def command(*, words: tuple[str, ...]) -> None:
    """Print the tarn.yaml that is equivalent to a command of the Java TARN.

    COMMAND is the whole command line, preferably as one quoted text, with its variables in front:
    'ZK_ENSEMBLE=zk1:2181 yarn jar tarn.jar varga.tarn.yarn.Client --port 8000'. It is read, never
    executed. A comment marks options that come with a later part; options that no version will have
    are refused. A token or another secret is never printed.
    """
    given = commandline.split(words[0]) if len(words) == 1 else list(words)
    click.echo(compat.translate(given, COMING), nl=False)


def _list(ctx: click.Context) -> None:
    """Print every option and variable of the Java TARN, and end."""
    rows = [(_written(one), one.env or "", one.help, one.target) for one in ALIASES]
    click.echo(columns(("OPTION", "ENVIRONMENT", "MEANING", "KEY IN tarn.yaml"), rows))
    ctx.exit()


def _written(alias: Alias) -> str:
    value = "" if alias.is_flag or not alias.declarations else " VALUE"
    return ", ".join(alias.declarations) + value
