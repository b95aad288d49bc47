"""From the command line to a spec: a file, ``--set``, and the options of the Java TARN."""

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import attrs
import click

from tarn.cli.options import NAME
from tarn.cli.show import note
from tarn.cluster import ClusterEnvironment
from tarn.config import ALIASES, Alias, LoadedSpec, load
from tarn.config.document import parse_value
from tarn.errors import ConfigError

__all__ = ["SpecSource", "overlay", "source_options"]

F = TypeVar("F", bound=Callable[..., Any])

_PREFIX = "alias_"
_OURS = frozenset({"-c", "-f", "-o", "-h"})
"""Our own short options; they win over those of the Java TARN, whose long names all work."""


@attrs.frozen
class SpecSource:
    """What a command line says about the spec."""

    path: Path | None
    """None: only what the options and the environment say."""
    arguments: Mapping[str, object]
    """The overlay of ``--set``, in the shape of YAML."""
    aliases: Mapping[str, object]
    """Values of legacy options, by long name."""

    def load(self, around: ClusterEnvironment, *, partial: bool = False) -> LoadedSpec:
        """Return the spec, held against the plugins of *around*; its notes are shown.

        Args:
            around: Where it is read.
            partial: What a start needs may be missing.
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


def source_options(verb: F) -> F:
    """Give the verb one ``source`` made from ``-f``, ``--set`` and every legacy option."""

    @functools.wraps(verb)
    def with_source(
        *args: Any, file: str | None, assignments: Sequence[str], name: str | None, **given: Any
    ) -> Any:
        legacy = {key: given.pop(key) for key in list(given) if key.startswith(_PREFIX)}
        arguments = overlay(assignments)
        if name is not None:
            arguments["name"] = name
        source = SpecSource(_path(file), arguments, _aliases(legacy))
        return verb(*args, source=source, **given)

    wrapped: Any = with_source
    for number, alias in reversed(tuple(enumerate(ALIASES))):
        if alias.declarations:
            wrapped = _option(number, alias)(wrapped)
    assign = click.option(
        "--set",
        "assignments",
        metavar="KEY.PATH=VALUE",
        multiple=True,
        help="Set one key of the spec, as YAML; may be repeated. The options of the Java TARN "
        "also work: `tarn compat --options` lists them.",
    )
    file = click.option(
        "-f",
        "--file",
        metavar="FILE",
        type=NAME,
        help="The spec. [default: ./tarn.yaml where there is one]",
    )
    name = click.option(
        "-c", "--cluster", "name", metavar="NAME", type=NAME, help="Name of the cluster."
    )
    made: F = file(name(assign(wrapped)))
    return made


def _option(number: int, alias: Alias) -> Callable[[F], F]:
    """Return the option of one row of the table; values stay text, so config judges them all.

    It is understood and not listed: some sixty of them would hide ours.
    """
    written = (name for name in alias.declarations if name not in _OURS)
    names = (f"{_PREFIX}{number}", *written)
    if alias.is_flag:
        return click.option(*names, is_flag=True, default=None, hidden=True)
    return click.option(*names, metavar="VALUE", default=None, multiple=alias.multiple, hidden=True)


def _aliases(legacy: Mapping[str, object]) -> Mapping[str, object]:
    return {
        ALIASES[int(key.removeprefix(_PREFIX))].key: value
        for key, value in legacy.items()
        if value is not None and value != ()
    }


def _path(file: str | None) -> Path | None:
    if file is not None:
        return Path(file)
    return Path("tarn.yaml") if Path("tarn.yaml").is_file() else None


def overlay(assignments: Sequence[str], option: str = "--set") -> dict[str, object]:
    """Return what ``key.path=value`` pairs mean, nested as in a file; a later one wins.

    Values that are not text are `tarn.config.draft.FileValue`. *option* stands in messages.

    Raises:
        ConfigError: One has no ``=``, or its value cannot stand in a file either.
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
