"""Apache Knox: what it needs to be configured with, and what is wrong in a topology.

::

    places      what a user names: URLs, an ensemble, a path       pure
    rendering   them -> service definition, topology, descriptor   pure
    topology    a topology file -> its parts, with their lines     pure
    checks      them -> findings                                   pure
    jar         the built URLManager, or how to build it
    commands    `tarn lb knox`
    java/       the URLManager: Knox follows the instances' nodes in ZooKeeper by itself

What is here stands in front of no request: Knox does, with HAProxy behind it or by itself.
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
    """Offer to examine topologies of Knox."""
    from tarn_plugins.discovery.knox.checks import examine  # noqa: PLC0415 (only when asked)

    return {"knox": FileCheck(examine, "a topology of Apache Knox")}
