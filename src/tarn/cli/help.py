"""`tarn help`."""

import click

from tarn.cli.verbs import root
from tarn.domain import CODES
from tarn.errors import NotFoundError


@click.command("help")
@click.argument("topic", required=False)
@click.pass_context
def command(ctx: click.Context, *, topic: str | None) -> None:
    """Explain TOPIC: a verb, or a code such as TARN-2102."""
    above = ctx.parent or ctx
    if topic is None:
        click.echo(root.get_help(above))
        return
    code = CODES.get(topic.upper())
    if code is not None:
        click.echo(f"{code.code} {code.title} ({code.severity})")
        click.echo(f"{code.meaning}\n{code.next_step}")
        return
    verb = None if topic.upper().startswith("TARN-") else root.get_command(above, topic)
    if verb is None:
        raise NotFoundError(
            f"there is no verb and no code '{topic}'", next_step="`tarn help` lists the verbs."
        )
    click.echo(verb.get_help(click.Context(verb, info_name=topic, parent=above)))
