"""What several verbs take: which cluster, which form of output, and the surroundings."""

import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar

import click

from tarn.cluster import (
    Cluster,
    ClusterEnvironment,
    choose,
    connect,
    current_environment,
    entries,
    remembered,
)
from tarn.errors import TarnError
from tarn.plain import not_empty

__all__ = [
    "NAME",
    "NameType",
    "NumberType",
    "WholeType",
    "cluster_option",
    "form_option",
    "pass_around",
    "pass_cluster",
    "pass_remembered",
]

_MOST_DIGITS = 18
"""Nobody means a longer number."""
F = TypeVar("F", bound=Callable[..., Any])


def _names(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete names of clusters; a shell in the middle of a line wants no error."""
    try:
        found = entries(ctx.obj or current_environment())
    except TarnError:
        return []
    return [one.name for one in found if one.name.startswith(incomplete)]


class NameType(click.ParamType):  # type: ignore[type-arg]  # click 8.1 takes no argument
    """A name, which is never empty: an unset variable of a shell must not mean "any"."""

    name = "name"

    def convert(self, value: Any, param: click.Parameter | None, _ctx: click.Context | None) -> str:
        """Return *value* where it is not empty."""
        where = "" if param is None else param.opts[0] if param.opts[0][:1] == "-" else ""
        return not_empty(str(value), where or (param.human_readable_name if param else ""))


NAME = NameType()


class WholeType(click.IntRange):
    """A whole number, refused in plain words."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return *value* where it is a whole number between the bounds."""
        text = str(value).strip()
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS):
            self.fail(f"'{value}' is not a whole number, such as {self.min or 1}", param, ctx)
        number = int(text)
        if self.min is not None and number < self.min:
            self.fail(f"{number} is too small; it must be at least {self.min}", param, ctx)
        if self.max is not None and number > self.max:
            self.fail(f"{number} is too large; it must be at most {self.max}", param, ctx)
        return number


class NumberType(click.FloatRange):
    """A number, refused in plain words where it is none or out of bounds."""

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return *value* where it is a finite number between the bounds."""
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            self.fail(f"'{value}' is not a number, such as {min(20, self.max or 20):g}", param, ctx)
        if self.min is not None and number < self.min:
            self.fail(f"{value} is too small; it must be at least {self.min:g}", param, ctx)
        if self.max is not None and number > self.max:
            self.fail(f"{value} is too large; it must be at most {self.max:g}", param, ctx)
        return number


cluster_option = click.option(
    "-c",
    "--cluster",
    "name",
    metavar="NAME",
    type=NAME,
    shell_complete=_names,
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
    """Give the verb the surroundings as its first argument."""

    @click.pass_obj
    @functools.wraps(verb)
    def with_surroundings(around: ClusterEnvironment | None, /, *args: Any, **kwargs: Any) -> Any:
        return verb(around or current_environment(), *args, **kwargs)

    return with_surroundings  # type: ignore[return-value]  # click's decorator loses the type


def pass_cluster(verb: F) -> F:
    """Give the verb the cluster that ``-c`` names, or the one that is meant; close it after."""
    return _passing(verb, connect)


def pass_remembered(verb: F) -> F:
    """Give the verb a cluster as `pass_cluster` does; one that left only its logs is found, too."""
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
