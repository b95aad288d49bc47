"""`tarn new model`: a model repository that lints clean and serves at once.

::

    signature      inputs and outputs, read from a model's file
    templates      the configuration, the program and a request       pure
    commands       the verb
"""

import click

from tarn.hookspecs import hookimpl

__all__ = ["tarn_cli"]


@hookimpl
def tarn_cli(commands: click.Group) -> None:
    """Add ``tarn new``."""
    from tarn_plugins.cli.new.commands import new  # noqa: PLC0415 (only when it is asked)

    commands.add_command(new)
