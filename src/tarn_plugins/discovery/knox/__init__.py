"""Apache Knox: the files that configure it, and the problems of a topology.

::

    rendering   URLs or an ensemble -> service definition, topology, descriptor   pure
    checks      a topology file -> findings                                       pure
    commands    `tarn lb knox`
    java/       the URLManager: Knox follows the instances' nodes in ZooKeeper itself

No request passes through TARN here: Knox sends it to HAProxy, or to an instance.
"""

from collections.abc import Mapping

import click

from tarn.hookspecs import FileCheck, hookimpl

__all__ = ["tarn_cli", "tarn_doctor_files"]


@hookimpl
def tarn_cli(commands: click.Group) -> None:
    """Add ``tarn lb knox``."""
    from tarn_plugins.discovery.knox.commands import knox  # noqa: PLC0415 (only when asked)

    group = commands.commands.setdefault(
        "lb", click.Group("lb", help="Load balancers in front of a cluster.")
    )
    assert isinstance(group, click.Group)
    group.add_command(knox)


@hookimpl
def tarn_doctor_files() -> Mapping[str, FileCheck]:
    """Offer a check of topology files of Knox."""
    from tarn_plugins.discovery.knox.checks import examine  # noqa: PLC0415 (only when asked)

    return {"knox": FileCheck(examine, "a topology of Apache Knox")}
