"""`tarn verify`."""

from pathlib import Path

import click

from tarn.cli.options import NAME, NumberType, form_option, pass_cluster
from tarn.cli.show import emit
from tarn.cli.talk import Talk
from tarn.cluster import Cluster
from tarn.cluster.verifying import MOST_RPS


@click.command("verify")
@pass_cluster
@click.option(
    "--rps",
    type=NumberType(0, MOST_RPS, min_open=True),
    default=20.0,
    show_default=True,
    help="Requests a second.",
)
@click.option("--for", "duration", default="30s", show_default=True, help="How long.")
@click.option(
    "--model",
    "models",
    multiple=True,
    type=NAME,
    help="Which model; may be repeated. [default: all]",
)
@click.option(
    "--input",
    "body",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A JSON inference request. [default: made from the model's metadata]",
)
@click.option(
    "--timeout",
    default="10s",
    show_default=True,
    help="A request without an answer by then is lost.",
)
@click.option(
    "--slow", default="1s", show_default=True, help="An answer that takes longer is slow."
)
@form_option
def command(  # noqa: PLR0913 (one for each option)
    cluster: Cluster,
    *,
    rps: float,
    duration: str,
    models: tuple[str, ...],
    body: Path | None,
    timeout: str,
    slow: str,
    form: str,
) -> int:
    """Send canary inferences straight to the instances; exit code 1 when one was lost.

    Each is sent on time, however slow the answers are; the report names the instances.
    """
    talk = Talk()
    try:
        made = cluster.verify(
            rps,
            duration,
            models,
            body=body.read_bytes() if body else None,
            timeout=timeout,
            slow=slow,
            progress=talk,
        )
    finally:
        talk.done()
    emit(made.plain(), form, lambda: str(made))
    return 0 if made.ok else 1
