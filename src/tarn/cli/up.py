"""`tarn up`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from tarn.cli.foretell import exit_code, foretold
from tarn.cli.options import form_option, pass_around
from tarn.cli.show import columns, emit, moment, note
from tarn.cli.source import SpecSource, source_options
from tarn.cli.talk import Talk
from tarn.cli.wait import end_degraded
from tarn.cluster import Cluster, ClusterEnvironment
from tarn.cluster.explain import first_words
from tarn.plain import pasted

_NOTHING_YET = ("", "preflight", "staging")
"""Phases of `up` in which nothing was submitted."""


@click.command("up")
@pass_around
@source_options
@form_option
@click.option("--wait/--no-wait", default=True, help="Wait until it serves. [default: wait]")
@click.option("--timeout", default="15m", show_default=True, help="How long to wait.")
@click.option("--dry-run", is_flag=True, help="Print what would be done, but do nothing.")
def command(  # noqa: PLR0913 (one for each option)
    around: ClusterEnvironment,
    *,
    source: SpecSource,
    form: str,
    wait: bool,
    timeout: str,
    dry_run: bool,
) -> None:
    """Start a cluster, or attach to it when it runs with an equal spec.

    It keeps running after this command, even an interrupted one: `tarn down` ends it. Exit code 7
    when it serves but is degraded: `tarn why` says what is missing.
    """
    talk = Talk()
    arguments: dict[str, Any] = dict(source.arguments)
    cluster = Cluster(source.path, aliases=source.aliases, environment=around, **arguments)
    for text in cluster.notes:
        note(text)
    if dry_run:
        plan = cluster.plan()
        emit(plan, form, lambda: foretold(plan))
        click.get_current_context().exit(exit_code(plan))
    try:
        cluster.up(talk)
        if not cluster.started_here:
            since = moment(cluster.started_at)
            click.echo(f"'{cluster.name}' is already running since {since}", err=True)
        if wait:
            cluster.wait(timeout=timeout, progress=talk)
    except KeyboardInterrupt:
        begun = cluster.url is not None or talk.phase not in _NOTHING_YET
        goes_on = f"it keeps running: `tarn down -c {cluster.name}` ends it"
        click.echo(f"\n{goes_on if begun else 'nothing was started'}", err=True)
        raise
    finally:
        talk.done()
    with_master = cluster.status()
    kept = around.paths.cluster(cluster.name) / "api_token"
    emit(with_master, form, lambda: _ending(with_master, cluster.url, kept))
    cluster.detach()
    if wait:
        end_degraded(with_master)


def _ending(status: Mapping[str, Any], url: str | None, kept: Path) -> str:
    """Return where it serves, where the api token is *kept* if it has one, and what to paste."""
    name = status["name"]
    serving = [item for item in status["instances"] if item["state"] == "ready" and item["http"]]
    lines = [f"{name} is {status['state']}: {status['ready']} of {status['desired']} ready"]
    notes = [status.get("reason"), *status.get("warnings", ())]
    lines += [f"! {first_words(line)}" for line in notes if line]
    rows = [("serves", f"http://{item['http']}") for item in serving]
    rows.append(("API", f"{url} (api token: {kept})" if kept.is_file() else str(url)))
    if serving:
        rows.append(
            ("try", pasted("curl", "-s", f"http://{serving[0]['http']}{_path(serving[0])}"))
        )
    rows.append(("end it", f"tarn down -c {name}"))
    table = columns(("", ""), rows).splitlines()
    return "\n".join((*lines, *table[1:]))


def _path(item: Mapping[str, Any]) -> str:
    """Return a request that any served model answers."""
    ready = [model["name"] for model in item.get("models", ()) if model["state"] == "READY"]
    return f"/v2/models/{quote(ready[0], safe='')}" if ready else "/v2"
