"""`tarn new`: write the first files of a model.

::

    signature      inputs and outputs, as a file has them or as the user names them
    templates      the texts of a new model                                          pure
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
