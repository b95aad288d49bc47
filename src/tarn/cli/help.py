"""The verbs about TARN itself: `tarn help`, `tarn completion`, `tarn plugins`."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import attrs
import click
from click.shell_completion import get_completion_class

from tarn.cli.options import NAME, form_option, pass_around
from tarn.cli.show import columns, emit
from tarn.cli.verbs import VERBS, root
from tarn.cluster import ClusterEnvironment
from tarn.domain import CODES
from tarn.errors import NotFoundError, ProviderMissingError
from tarn.plain import did_you_mean, options
from tarn.plugins import KINDS, Plugins


@click.command("plugins")
@pass_around
@click.argument("name", required=False, type=NAME)
@form_option
def plugins_command(around: ClusterEnvironment, *, name: str | None, form: str) -> None:
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
            # Only an attrs class can be listed; choosing another one raises a clear error.
            described = isinstance(settings, type) and attrs.has(settings)
            yield {
                "kind": kind,
                "name": name,
                "plugin": offered.owner(kind, name),
                "needs": f"tarn-orchestrator[{factory.extra}]" if factory.extra else "",
                "summary": factory.summary,
                "options": [attrs.asdict(o) for o in options(settings)] if described else [],
            }


def _table(rows: Iterable[Mapping[str, Any]]) -> str:
    rows = list(rows)
    heads = ("KIND", "NAME", "PLUGIN", "NEEDS", "SUMMARY")
    parts = [columns(heads, ([row[head.lower()] for head in heads] for row in rows))]
    for row in rows:
        if row["options"]:
            parts.append(f"\nOptions of {row['kind']} '{row['name']}':")
            cells = []
            for one in row["options"]:
                default = one["default"]
                if not isinstance(default, str):
                    default = json.dumps(default, ensure_ascii=False)
                cells.append((one["key"], one["kind"], default, one["meaning"]))
            table = columns(("OPTION", "KIND", "DEFAULT", "MEANING"), cells)
            parts += [f"  {line}" for line in table.splitlines()]
    return "\n".join(parts)


# The environment variable with which a shell asks click for completions.
_VARIABLE = "_TARN_COMPLETE"
_SHELLS = ("bash", "zsh", "fish")


@click.command("help")
@click.argument("topic", required=False)
@click.pass_context
def help_command(ctx: click.Context, *, topic: str | None) -> None:
    """Explain TOPIC: a verb, or a code such as TARN-2102 (2102 is enough)."""
    above = ctx.parent or ctx
    if topic is None:
        click.echo(root.get_help(above))
        return
    word = f"TARN-{topic}" if topic.isdecimal() else topic.upper()
    if word in CODES:
        code = CODES[word]
        click.echo(f"{code.code} {code.title} ({code.severity})")
        click.echo(f"{code.meaning}\nNext step: {code.next_step}")
        return
    verb = None if word.startswith("TARN-") else root.get_command(above, topic)
    if verb is None:
        near = did_you_mean(word, CODES) if word.startswith("TARN-") else ""
        raise NotFoundError(
            f"there is no verb and no code '{topic}'",
            next_step=near or did_you_mean(topic, VERBS) or "`tarn help` lists the verbs.",
        )
    click.echo(verb.get_help(click.Context(verb, info_name=topic, parent=above)))


@click.command("completion")
@click.argument("shell", type=click.Choice(_SHELLS))
def completion_command(*, shell: str) -> None:
    """Print the script that makes SHELL complete verbs, options and names of clusters.

    bash: `eval "$(tarn completion bash)"` in ~/.bashrc. zsh: the same with zsh in ~/.zshrc, after
    compinit. fish: `tarn completion fish > ~/.config/fish/completions/tarn.fish`.
    """
    made = get_completion_class(shell)
    if made is None:  # click has these three, but a program may unregister one
        raise ProviderMissingError(shell, f"click completes no {shell}")
    click.echo(made(root, {}, "tarn", _VARIABLE).source())
