"""`tarn pack`: the Python environment of the nodes, as one archive.

::

    options        what to pack, and the archive's name                  pure
    fitness        files that need a newer C library, or libraries of the nodes
    uv             brings the interpreter, the packages, and the installed tarn
    java           brings a Java for nodes whose own is too old
    tree           the environment's layout, without what nodes do not need; its archive
    recipe         all steps, in order
    commands       the verb
"""

import click

from tarn.hookspecs import hookimpl

__all__ = ["tarn_cli"]


@hookimpl
def tarn_cli(commands: click.Group) -> None:
    """Add ``tarn pack``."""
    from tarn_plugins.cli.pack.commands import pack  # noqa: PLC0415 (only when it is asked)

    commands.add_command(pack)
