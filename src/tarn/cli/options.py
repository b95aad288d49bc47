"""Options that several verbs share: the cluster, the spec, the form of the output."""

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import attrs
import click

from tarn.cli.show import note
from tarn.cluster import (
    Cluster,
    ClusterEnvironment,
    choose,
    connect,
    current_environment,
    entries,
    remembered,
)
from tarn.config import ALIASES, Alias, LoadedSpec, load
from tarn.config.document import parse_value
from tarn.errors import ConfigError, TarnError
from tarn.plain.parameters import NAME, NameType, NumberType, WholeType

__all__ = [
    "NAME",
    "NameType",
    "NumberType",
    "SpecSource",
    "WholeType",
    "cluster_option",
    "form_option",
    "overlay",
    "pass_around",
    "pass_cluster",
    "pass_remembered",
    "source_options",
]

F = TypeVar("F", bound=Callable[..., Any])
_PREFIX = "alias_"
# Our own short options; where the Java TARN has the same one, only its long name works.
_OURS = frozenset({"-c", "-f", "-o", "-h"})


def _complete_name(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of clusters that begin with *incomplete*."""
    try:
        found = entries(ctx.obj or current_environment())
    except TarnError:  # it would be printed into the command line that the user is typing
        return []
    return [one.name for one in found if one.name.startswith(incomplete)]


cluster_option = click.option(
    "-c",
    "--cluster",
    "name",
    metavar="NAME",
    type=NAME,
    shell_complete=_complete_name,
    help="Which cluster. [default: the name in ./tarn.yaml, else the only one]",
)

form_option = click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["table", "json", "yaml"]),
    default="table",
    show_default=True,
    help="How to print the result.",
)


def pass_around(verb: F) -> F:
    """Pass the environment to the verb as its first argument."""

    @click.pass_obj
    @functools.wraps(verb)
    def with_surroundings(around: ClusterEnvironment | None, /, *args: Any, **kwargs: Any) -> Any:
        return verb(around or current_environment(), *args, **kwargs)

    return with_surroundings  # type: ignore[return-value]  # click's decorator loses the type


def pass_cluster(verb: F) -> F:
    """Pass the cluster that ``-c`` names, or `choose` finds, to the verb; detach it after."""
    return _passing(verb, connect)


def pass_remembered(verb: F) -> F:
    """Pass a cluster to the verb as `pass_cluster` does, even one that left only its logs."""
    return _passing(verb, remembered)


def _passing(verb: F, find: Callable[..., Cluster]) -> F:
    @cluster_option
    @pass_around
    @functools.wraps(verb)
    def with_cluster(
        around: ClusterEnvironment, /, *args: Any, name: str | None, **kwargs: Any
    ) -> Any:
        cluster = find(name or choose(around), environment=around)
        try:
            return verb(cluster, *args, **kwargs)
        finally:
            cluster.detach()

    return with_cluster  # type: ignore[return-value]  # click's decorator loses the type


# click lists the one that was added last first.
_SOURCE_OPTIONS = (
    click.option(
        "--set",
        "assignments",
        metavar="KEY.PATH=VALUE",
        multiple=True,
        help="Set one key of the spec, as YAML; may be repeated. The options of the Java TARN "
        "also work: `tarn compat --options` lists them.",
    ),
    click.option("-c", "--cluster", "name", metavar="NAME", type=NAME, help="Name of the cluster."),
    click.option(
        "-f",
        "--file",
        metavar="FILE",
        type=NAME,
        help="The spec. [default: ./tarn.yaml where there is one]",
    ),
)


@attrs.frozen
class SpecSource:
    """The spec as a command line describes it."""

    path: Path | None
    """None: only the options and the environment."""
    arguments: Mapping[str, object]
    """The overlay of ``--set``, in the shape of YAML."""
    aliases: Mapping[str, object]
    """Values of legacy options, by long name."""

    def load(self, around: ClusterEnvironment, *, partial: bool = False) -> LoadedSpec:
        """Return the spec, checked against the plugins; print its notes.

        Args:
            around: The environment in which it is read.
            partial: Accept a spec without the keys that a start needs.
        """
        loaded = load(
            self.path,
            arguments=self.arguments,
            aliases=self.aliases,
            environ=around.environ,
            plugins=around.plugins(),
            partial=partial,
        )
        for text in loaded.notes:
            note(text)
        return loaded

    def cluster(self, around: ClusterEnvironment) -> Cluster:
        """Return the cluster of the spec; print its notes."""
        given: dict[str, Any] = dict(self.arguments)
        cluster = Cluster(self.path, aliases=self.aliases, environment=around, **given)
        for text in cluster.notes:
            note(text)
        return cluster


def source_options(verb: F) -> F:
    """Pass one ``source`` to the verb, made from ``-f``, ``--set`` and every legacy option."""

    @functools.wraps(verb)
    def with_source(
        *args: Any, file: str | None, assignments: Sequence[str], name: str | None, **given: Any
    ) -> Any:
        legacy = {key: given.pop(key) for key in list(given) if key.startswith(_PREFIX)}
        arguments = overlay(assignments)
        if name is not None:
            arguments["name"] = name
        path = Path(file or "tarn.yaml")
        values = {
            ALIASES[int(key.removeprefix(_PREFIX))].key: value
            for key, value in legacy.items()
            if value is not None and value != ()
        }
        source = SpecSource(path if file or path.is_file() else None, arguments, values)
        return verb(*args, source=source, **given)

    wrapped: Any = with_source
    for number, alias in reversed(tuple(enumerate(ALIASES))):
        if alias.declarations:
            wrapped = _option(number, alias)(wrapped)
    for own in _SOURCE_OPTIONS:
        wrapped = own(wrapped)
    made: F = wrapped
    return made


def _option(number: int, alias: Alias) -> Callable[[F], F]:
    """Return the click option of one row of the table; `tarn.config` parses its value."""
    # Hidden, since some sixty of them would bury our own in the help.
    written = (name for name in alias.declarations if name not in _OURS)
    names = (f"{_PREFIX}{number}", *written)
    if alias.is_flag:
        return click.option(*names, is_flag=True, default=None, hidden=True)
    return click.option(*names, metavar="VALUE", default=None, multiple=alias.multiple, hidden=True)


def overlay(assignments: Sequence[str], option: str = "--set") -> dict[str, object]:
    """Return ``key.path=value`` pairs as nested mappings, like a file's; the last one counts.

    Values other than text are `tarn.config.draft.FileValue`. *option* is used in messages.

    Raises:
        ConfigError: A pair has no ``=``, or its value would be invalid in a file.
    """
    plain: dict[str, object] = {}
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        if not equals or not path:
            raise ConfigError(
                f"'{path}' has no value", where=option, right="Expected KEY.PATH=VALUE."
            )
        *parents, last = path.split(".")
        level = plain
        for key in parents:
            below = level.setdefault(key, {})
            if not isinstance(below, dict):
                below = level[key] = {}
            level = below
        level[last] = parse_value(text, f"{option} {path}", path)
    return plain
