"""`tarn sandbox`: a small YARN with HDFS on this machine, each daemon a process of its own.

::

    options        what a sandbox is made with                          pure
    maven          what Maven is asked for, and what its errors mean    pure
    network        its host names, loopback addresses and ports         pure
    configuration  options -> Hadoop's *.xml                            pure
    security       what Kerberos changes in them                        pure
    daemons        options -> each daemon's command line                pure
    shims          bin/hadoop, bin/hdfs, bin/yarn                       pure
    hosts, jars, java, kerberos, layout, processes, programs, rest, sockets
                   one part of the machine each
    hdfs           what is done in HDFS, over HTTP or by programs
    crew           the daemons that run
    sandbox        the sandbox itself: up, down, kill, start, look
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
