"""`tarn models`: load and unload models on every present and future instance."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from tarn.cli.options import NAME, form_option, pass_cluster
from tarn.cli.show import columns, emit
from tarn.cluster import Cluster
from tarn.errors import ConfigError

__all__ = ["models_command"]

_NO_WAIT = click.option(
    "--no-wait", is_flag=True, help="Do not wait; `tarn models wanted` shows the progress."
)


@click.group("models")
def models_command() -> None:
    """Load and unload models on every instance, and see which have them.

    It needs `models: {control: explicit}`. Instances that start later get the same before they
    serve.
    """


@models_command.command("load")
@pass_cluster
@click.argument("model", metavar="MODEL", type=NAME)
@click.option(
    "--config",
    metavar="FILE",
    help="A model configuration in JSON, in place of the one in the repository.",
)
@click.option(
    "--timeout",
    default="15m",
    show_default=True,
    help="How long to wait until every instance has done it.",
)
@_NO_WAIT
@form_option
def load(  # noqa: PLR0913 (options)
    cluster: Cluster, *, model: str, config: str | None, timeout: str, no_wait: bool, form: str
) -> None:
    """Load MODEL at every instance; one that has it loads it again.

    Exit code 2 if an instance refuses it, and 4 if one has not done it in time.
    """
    given = None if config is None else _json_object(config)
    done = cluster.load_model(model, config=given, wait=None if no_wait else timeout)
    emit(done, form, lambda: _sentence(done))


@models_command.command("unload")
@pass_cluster
@click.argument("model", metavar="MODEL", type=NAME)
@click.option("--dependents", is_flag=True, help="Also unload the models of an ensemble.")
@click.option(
    "--timeout",
    default="1m",
    show_default=True,
    help="How long to wait until every instance has done it.",
)
@_NO_WAIT
@form_option
def unload(  # noqa: PLR0913 (options)
    cluster: Cluster, *, model: str, dependents: bool, timeout: str, no_wait: bool, form: str
) -> None:
    """Unload MODEL at every instance; those that start later do not serve it either.

    Requests that it has are answered first.
    """
    wait = None if no_wait else timeout
    done = cluster.unload_model(model, dependents=dependents, wait=wait)
    emit(done, form, lambda: _sentence(done))


@models_command.command("wanted")
@pass_cluster
@form_option
def wanted(cluster: Cluster, *, form: str) -> None:
    """Show what was requested, which instances have done it, and why others have not."""
    answer = cluster.control()
    emit(answer, form, lambda: _table(answer.get("calls", ())))


def _json_object(path: str) -> str:
    """Return the text of a file that holds a JSON object."""
    try:
        text = Path(path).read_text("utf-8")
    except OSError as error:
        raise ConfigError(f"cannot be read ({error.strerror})", where=path) from error
    except UnicodeDecodeError:
        raise ConfigError("is not UTF-8 text", where=path) from None
    try:
        is_object = isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        is_object = False
    if not is_object:
        right = "Expected a model configuration, as `GET /v2/models/MODEL/config` returns it"
        raise ConfigError("is not a JSON object", where=path, right=right)
    return text


def _sentence(row: Mapping[str, Any]) -> str:
    what = f"{row['kind']} of {row['model']} (call {row['call']})"
    if row.get("overtaken_by"):
        return f"{what}: call {row['overtaken_by']} replaced it"
    if row.get("refuses") and "of" not in row:
        return "\n".join((f"{what}: no instance could do it", *_others({"not_yet": (), **row})))
    if "overtaken_by" not in row and "of" not in row:
        return (
            f"{what}: it was requested, but another master has taken over since and does not "
            "know it"
        )
    if "of" not in row:
        return f"{what}: done"
    return "\n".join((f"{what}: {row['has']} of {row['of']} instances have done it", *_others(row)))


def _others(row: Mapping[str, Any]) -> Sequence[str]:
    return [
        *(f"{one['id']} has not done it yet: {one['why']}" for one in row["not_yet"]),
        *(f"{one['id']} refuses it: {one['why']}" for one in row["refuses"]),
    ]


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return (
            "no control call is in force: instances serve the models that they load at their start"
        )
    cells = (
        (
            str(row["call"]),
            row["kind"],
            row["model"] or "-",
            f"{row['has']} of {row['of']}",
            "; ".join(_others(row)) or "-",
        )
        for row in rows
    )
    return columns(("CALL", "KIND", "MODEL", "HAVE IT", "OTHERS"), cells)
