"""`tarn secrets`, which shows names and variables, but never a value."""

import sys
from pathlib import Path

import click

from tarn.cli.options import NAME, SpecSource, WholeType, form_option, pass_around, source_options
from tarn.cli.show import Talk, columns, emit
from tarn.cluster import ClusterEnvironment
from tarn.cluster.given_secrets import StoredSecret
from tarn.cluster.start.stores import held, stores
from tarn.domain import ClusterSpec
from tarn.errors import ConfigError

__all__ = ["secrets_command"]


@click.group("secrets")
def secrets_command() -> None:
    """Write secrets into the stores of a spec, and see which ones instances get.

    A value is read from a prompt, from standard input or from a file. It is never shown, and never
    an argument, which other users of this machine could read.
    """


@secrets_command.command("list")
@pass_around
@source_options
@form_option
def listed(around: ClusterEnvironment, *, source: SpecSource, form: str) -> None:
    """List every secret of every store, and what instances get it as.

    Secrets that instances do not get are for TARN itself, such as the password of a keystore.
    """
    found = _held(around, _spec(around, source))
    rows = [
        {"name": one.name, "variables": list(one.variables), "store": one.where} for one in found
    ]
    cells = ((one.name, ", ".join(one.variables) or "-", one.where) for one in found)
    emit(rows, form, lambda: columns(("NAME", "GIVEN AS", "STORE"), cells))


@secrets_command.command("put")
@click.argument("secret", metavar="NAME", type=NAME)
@click.option(
    "--from",
    "origin",
    metavar="FILE",
    help="Read the value from FILE; one trailing line end is removed. [default: a prompt, or "
    "standard input if that is not a terminal]",
)
@click.option(
    "--store",
    "number",
    type=WholeType(min=0),
    metavar="N",
    help="Which of several stores, counted from 0: secrets[N].",
)
@pass_around
@source_options
def put(
    around: ClusterEnvironment,
    *,
    secret: str,
    origin: str | None,
    number: int | None,
    source: SpecSource,
) -> None:
    """Write one secret, in place of an older one of its name.

    Running clusters keep the values that they were started with, and `tarn up` does not see a new
    value as another spec. `tarn down`, then `tarn up`, applies it.
    """
    found = stores(_spec(around, source), around, Talk())
    if number is None and len(found) > 1:
        raise click.UsageError(f"there are {len(found)} stores: choose one with --store N")
    if number is not None and number >= len(found):
        raise click.UsageError(f"--store {number}: there are {len(found)}, counted from 0")
    store = found[number or 0]
    store.open.write(secret, _value(secret, origin))
    click.echo(f"'{secret}' is kept in {store.where}", err=True)


@secrets_command.command("check")
@pass_around
@source_options
@form_option
def check(around: ClusterEnvironment, *, source: SpecSource, form: str) -> None:
    """Read every secret as `tarn up` does, and say which variables instances will get.

    Exit code 0: `tarn up` can read them all; 2: it would refuse, and this is why.
    """
    found = _held(around, _spec(around, source))
    rows = [
        {"variable": variable, "name": one.name, "store": one.where}
        for one in found
        for variable in one.variables
    ]
    cells = (tuple(row.values()) for row in rows)
    emit(rows, form, lambda: columns(("VARIABLE", "SECRET", "STORE"), cells))
    if not rows:
        click.echo("instances get no variable from a secret", err=True)


def _spec(around: ClusterEnvironment, source: SpecSource) -> ClusterSpec:
    loaded = source.load(around, partial=True)
    if not loaded.spec.secrets:
        raise ConfigError(
            "the spec has no secret store",
            where="secrets",
            right="Expected [{use: jceks, options: {path: hdfs:///user/me/hf.jceks}}].",
        )
    return loaded.spec


def _held(around: ClusterEnvironment, spec: ClusterSpec) -> tuple[StoredSecret, ...]:
    talk = Talk()
    try:
        return held(spec, around, talk)
    finally:
        talk.done()


def _value(name: str, origin: str | None) -> str:
    """Return the value from the prompt, standard input or a file; errors do not quote it."""
    if origin is None and sys.stdin.isatty():
        typed: str = click.prompt(
            f"Value of '{name}'", hide_input=True, confirmation_prompt=True, err=True
        )
        return typed
    place = "standard input" if origin in {None, "-"} else str(origin)
    try:
        data = sys.stdin.buffer.read() if origin in {None, "-"} else Path(str(origin)).read_bytes()
        text = data.decode()
    except OSError as error:
        raise ConfigError(f"cannot be read ({error.strerror})", where=place) from error
    except UnicodeDecodeError:
        raise ConfigError("is not UTF-8 text", where=place) from None
    text = text.removesuffix("\r\n") if text.endswith("\r\n") else text.removesuffix("\n")
    if not text:
        raise ConfigError("holds no value", where=place)
    return text
