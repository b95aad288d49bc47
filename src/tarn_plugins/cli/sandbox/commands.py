"""`tarn sandbox up`, `down` and `status`."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import attrs
import click

from tarn.errors import UnreachableError
from tarn.interfaces import ClientContext
from tarn.triton.folders import private_folder
from tarn_plugins.cli.sandbox.jars import repository_fault
from tarn_plugins.cli.sandbox.options import MOST_NODES, PLACEMENTS, VERSION, SandboxOptions

__all__ = ["sandbox"]

F = TypeVar("F", bound=Callable[..., Any])
_PLAIN = SandboxOptions()

_directory = click.option(
    "--directory",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where the sandbox is. [default: ~/.tarn/sandbox]",
)
_form = click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="How to print the result.",
)


def _context() -> ClientContext:
    found: ClientContext = click.get_current_context().meta["tarn.context"]
    return found


def _place(directory: Path | None) -> Path:
    return directory or private_folder(_context().paths.home) / "sandbox"


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def sandbox() -> None:
    """Run a small Hadoop on this machine: HDFS, and YARN with some nodes.

    Real daemons, each a process of its own, on loopback addresses only; nothing in them is
    protected from other users of this machine. Maven downloads their jars once, or they come from
    an installation.
    """


def _version(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    if value is not None and not VERSION.fullmatch(value):
        raise click.BadParameter(f"'{value}' is not a version of Hadoop, such as {_PLAIN.hadoop}")
    return value


def _repository(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """Return the URL; the error does not repeat it, for it may hold a secret."""
    if value and (fault := repository_fault(value)):
        raise click.BadParameter(f"it {fault}")
    return value


def _properties(
    _ctx: click.Context, _parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, str] | None:
    """Return name -> value; None, which keeps the earlier ones, if none was given."""
    for value in values:
        if not value.partition("=")[0] or "=" not in value:
            raise click.BadParameter(f"'{value}' is not NAME=VALUE")
    return dict(value.split("=", 1) for value in values) or None


_shape = (
    click.option(
        "--hadoop",
        metavar="VERSION",
        callback=_version,
        help=f"Version of Hadoop to download. [{_PLAIN.hadoop}]",
    ),
    click.option(
        "--repository",
        metavar="URL",
        callback=_repository,
        help="Another Maven repository to search; a distribution's own jars are only in its own.",
    ),
    click.option(
        "--hadoop-home",
        type=click.Path(exists=True, file_okay=False, resolve_path=True),
        help="An installation whose jars to use; then nothing is downloaded.",
    ),
    click.option(
        "--nodes", type=click.IntRange(1, MOST_NODES), help=f"NodeManagers. [{_PLAIN.nodes}]"
    ),
    click.option(
        "--gpus", type=click.IntRange(0), help=f"GPUs that each node declares. [{_PLAIN.gpus}]"
    ),
    click.option(
        "--placement",
        type=click.Choice(PLACEMENTS),
        help=f"Who handles placement constraints. [{_PLAIN.placement}]",
    ),
    click.option(
        "--expiry",
        "expiry_s",
        type=click.FloatRange(1),
        help="Seconds of silence after which a node or a master counts as lost. "
        f"[{_PLAIN.expiry_s:g}]",
    ),
    click.option("--ha/--no-ha", default=None, help="Two ResourceManagers and a ZooKeeper. [no]"),
    click.option(
        "--kerberos/--no-kerberos",
        default=None,
        help="A Kerberos realm with a ticket for you, which RPC and HDFS require. [no]",
    ),
    click.option(
        "--property",
        "properties",
        metavar="NAME=VALUE",
        multiple=True,
        callback=_properties,
        help="A property of Hadoop that overrides the sandbox's own; an empty VALUE removes it. "
        "May be repeated.",
    ),
    click.option(
        "--network",
        type=click.IntRange(1, 254),
        help=f"Listen on 127.0.N.*; use another number for a second sandbox. [{_PLAIN.network}]",
    ),
)


def _with_shape(verb: F) -> F:
    for option in reversed(_shape):
        verb = option(verb)
    return verb


@sandbox.command()
@_directory
@_with_shape
@_form
def up(directory: Path | None, form: str, **shape: Any) -> None:
    """Start the sandbox; print the environment that a client needs.

    Options that are not given stay as they were when the sandbox was made.

    For a shell: eval "$(tarn sandbox up)"
    """
    from tarn_plugins.cli.sandbox.layout import written  # noqa: PLC0415 (heavier than help)
    from tarn_plugins.cli.sandbox.sandbox import Sandbox  # noqa: PLC0415

    place = _place(directory)
    given = {key: value for key, value in shape.items() if value is not None}
    made = Sandbox(place, _context(), attrs.evolve(written(place) or _PLAIN, **given))
    made.up()
    if form == "json":
        click.echo(json.dumps(made.environ, indent=2))
    else:
        for name, value in made.environ.items():
            click.echo(f"export {name}={shlex.quote(value)}")


@sandbox.command()
@_directory
@click.option("--keep", is_flag=True, help="Keep the data for the next `up`.")
def down(directory: Path | None, *, keep: bool) -> None:
    """Stop the daemons and everything that runs in the sandbox, and remove it."""
    from tarn_plugins.cli.sandbox.sandbox import Sandbox  # noqa: PLC0415

    Sandbox(_place(directory), _context()).down(keep=keep)


@sandbox.command()
@_directory
@_form
def status(directory: Path | None, form: str) -> None:
    """Show the daemons and the nodes."""
    from tarn_plugins.cli.sandbox.sandbox import Sandbox  # noqa: PLC0415

    found = Sandbox(_place(directory), _context())
    daemons = [attrs.asdict(one) for one in found.daemons()]
    try:
        nodes = [_node(one) for one in found.nodes()]
    except UnreachableError:
        nodes = []
    if form == "json":
        shown = {"environ": found.environ, "daemons": daemons, "nodes": nodes}
        click.echo(json.dumps(shown, indent=2))
        return
    for one in daemons:
        click.echo(f"{one['name']:<5} {one['host']:<24} {one['pid'] or 'not running'}")
    for node in nodes:
        click.echo(
            f"{node['id']}  {node['state']}  {node['containers']} containers, "
            f"{node['free_mib']} MiB free" + (f", label {node['label']}" if node["label"] else "")
        )


def _node(seen: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": seen["id"],
        "state": seen["state"],
        "containers": seen["numContainers"],
        "free_mib": seen["availMemoryMB"],
        "label": ",".join(seen.get("nodeLabels") or []),
    }
