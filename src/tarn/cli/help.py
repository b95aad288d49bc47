"""`tarn help`."""

import click

from tarn.cli.verbs import VERBS, root
from tarn.domain import CODES
from tarn.errors import NotFoundError
from tarn.plain import did_you_mean


@click.command("help")
@click.argument("topic", required=False)
@click.pass_context
def command(ctx: click.Context, *, topic: str | None) -> None:
    """Explain TOPIC: a verb, or a code such as TARN-2102 (2102 is enough)."""
    above = ctx.parent or ctx
    if topic is None:
        click.echo(root.get_help(above))
        return
    word = f"TARN-{topic}" if topic.isdecimal() else topic.upper()
    if word in CODES:
        _explain(word)
        return
    verb = None if word.startswith("TARN-") else root.get_command(above, topic)
    if verb is None:
        near = did_you_mean(word, CODES) if word.startswith("TARN-") else ""
        raise NotFoundError(
            f"there is no verb and no code '{topic}'",
            next_step=near or did_you_mean(topic, VERBS) or "`tarn help` lists the verbs.",
        )
    click.echo(verb.get_help(click.Context(verb, info_name=topic, parent=above)))


def _explain(word: str) -> None:
    """Print title, meaning and next step; the table is in the program, so no network is asked."""
    code = CODES[word]
    click.echo(f"{code.code} {code.title} ({code.severity})")
    click.echo(f"{code.meaning}\nNext step: {code.next_step}")
