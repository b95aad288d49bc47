"""`tarn plugins`."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import attrs
import click

from tarn.cli.options import NAME, form_option, pass_around
from tarn.cli.show import columns, emit
from tarn.cluster import ClusterEnvironment
from tarn.errors import NotFoundError
from tarn.plain import did_you_mean, options
from tarn.plugins import KINDS, Plugins


@click.command("plugins")
@pass_around
@click.argument("name", required=False, type=NAME)
@form_option
def command(around: ClusterEnvironment, *, name: str | None, form: str) -> None:
    """List what the installed plugins offer, and which plugin offers it.

    Then it lists the options of each provider: what may be written under `options` next to its
    name. With NAME, it shows only what is offered under that name, or by that plugin.
    """
    rows = list(_rows(around.plugins()))
    if name is not None:
        known = [str(row[key]) for row in rows for key in ("name", "plugin")]
        rows = [row for row in rows if name in (row["name"], row["plugin"])]
        if not rows:
            raise NotFoundError(
                f"no plugin offers '{name}' or has that name",
                next_step=did_you_mean(name, known) or "`tarn plugins` lists them",
            )
    emit(rows, form, lambda: _table(rows))


def _rows(offered: Plugins) -> Iterable[Mapping[str, Any]]:
    for kind in KINDS:
        for name, factory in offered.offers(kind).items():
            settings: Any = getattr(factory, "settings", None)
            yield {
                "kind": kind,
                "name": name,
                "plugin": offered.owner(kind, name),
                "needs": f"tarn-orchestrator[{factory.extra}]" if factory.extra else "",
                "summary": factory.summary,
                "options": [attrs.asdict(o) for o in options(settings)]
                if _described(settings)
                else [],
            }


def _described(settings: Any) -> bool:
    """Whether its options can be listed; choosing the provider says what is wrong with it."""
    return isinstance(settings, type) and attrs.has(settings)


def _table(rows: Iterable[Mapping[str, Any]]) -> str:
    rows = list(rows)
    heads = ("KIND", "NAME", "PLUGIN", "NEEDS", "SUMMARY")
    parts = [columns(heads, ([row[head.lower()] for head in heads] for row in rows))]
    for row in rows:
        if row["options"]:
            parts.append(f"\nOptions of {row['kind']} '{row['name']}':")
            table = columns(("OPTION", "KIND", "DEFAULT", "MEANING"), map(_option, row["options"]))
            parts += [f"  {line}" for line in table.splitlines()]
    return "\n".join(parts)


def _option(option: Mapping[str, Any]) -> tuple[str, ...]:
    default = option["default"]
    shown = default if isinstance(default, str) else json.dumps(default, ensure_ascii=False)
    return option["key"], option["kind"], shown, option["meaning"]
