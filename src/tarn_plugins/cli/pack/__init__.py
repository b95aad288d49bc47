"""`tarn pack`: the Python environment of the nodes, as one archive.

::

    order          what is to be packed, and what the archive is called      pure
    elf            what a program or library needs of the system             pure
    fitness        which files need a newer C library, or a foreign one
    uv             the interpreter and the packages, by uv
    source         tarn itself, exactly as it is installed here
    java           a Java for nodes that have none that is new enough
    tree           what lies where, and what no node needs
    archive        the same content, the same bytes
    recipe         all of it, one step after another
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
