"""`tarn sandbox`: a small YARN with HDFS on this machine, one process for each daemon.

::

    options        the sandbox's options, host names, addresses and ports; pure
    configuration  options -> Hadoop's *.xml; pure
    kerberos       the realm, and what Kerberos changes in these files
    jars           Hadoop's jars, by Maven or from an installation; Java
    layout         the sandbox's files, its programs in ``bin``, and /etc/hosts
    daemons        each daemon's command line, and its process
    rest           requests to the daemons, over HTTP or by programs
    sandbox        the sandbox itself: up, down, kill, start
    commands       the verbs
"""

import click

from tarn.hookspecs import hookimpl

__all__ = ["tarn_cli"]


@hookimpl
def tarn_cli(commands: click.Group) -> None:
    """Add ``tarn sandbox``."""
    from tarn_plugins.cli.sandbox.commands import sandbox  # noqa: PLC0415 (only when it is asked)

    commands.add_command(sandbox)
