"""`tarn support-bundle`: collect what helps to understand a cluster, without secrets.

A bundle can be made of a cluster that answers, that hangs, or that has ended: each part is gathered
by itself, and the manifest gives the reason for each part that is missing.

::

    parts          what the master, the doctor, kept files and logs contain
    machine        facts about this machine
    known          the secrets to search for
    scrub          removes them in every form, and what looks like one     pure
    pseudonyms     stand-ins for people and machines
    making         gathers, scrubs and checks
    archive        the manifest, the README and the file
    commands       the verb
"""

from pathlib import Path

import click

from tarn.hookspecs import hookimpl
from tarn.interfaces import ClusterInspection

__all__ = ["tarn_cli", "tarn_support_bundle"]


@hookimpl
def tarn_cli(commands: click.Group) -> None:
    """Add ``tarn support-bundle``."""
    from tarn_plugins.cli.support_bundle.commands import command  # noqa: PLC0415 (only when asked)

    commands.add_command(command)


@hookimpl
def tarn_support_bundle(
    subject: ClusterInspection,
    path: Path | None,
    log_mib: float,
    with_names: bool,  # noqa: FBT001 (pluggy passes arguments by position)
) -> Path:
    """Write a bundle for `tarn.Cluster.support_bundle`."""
    from tarn_plugins.cli.support_bundle.making import BundleOptions, make  # noqa: PLC0415 (seldom)

    made = make(subject, BundleOptions(log_mib, with_names=with_names))
    target = path or Path(f"{made.folder}.tar.gz")
    made.write(target)
    return target
