"""The verbs of a cluster's life: `tarn up`, `tarn wait`, `tarn down`."""

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from tarn.cli.options import (
    SpecSource,
    cluster_option,
    form_option,
    pass_around,
    pass_cluster,
    source_options,
)
from tarn.cli.show import Talk, columns, emit, moment, note
from tarn.cluster import Cluster, ClusterEnvironment, Goal, choose, connect
from tarn.cluster.read.table import first_words, issue_lines
from tarn.cluster.start.launch import flat
from tarn.domain import ClusterState
from tarn.errors import NotFoundError
from tarn.plain import pasted

__all__ = ["exit_code", "foretold"]

# The cluster serves, but less than it did or should.
EXIT_DEGRADED = 7
# Phases of `up` in which nothing was submitted.
_NOTHING_YET = ("", "preflight", "staging")


@click.command("wait")
@pass_cluster
@click.option(
    "--for",
    "goal",
    metavar="ready=N|state=S",
    help="What to wait for. [default: as many ready as desired]",
)
@click.option("--timeout", default="5m", show_default=True, help="How long.")
def wait_command(cluster: Cluster, *, goal: str | None, timeout: str) -> None:
    """Wait until a cluster serves; exit code 4 when it does not in time, 1 when it failed.

    Exit code 7 when it serves but is degraded: `tarn why` says what is missing.
    """
    wanted = Goal.of(goal)
    talk = Talk()
    try:
        cluster.wait(wanted.ready, timeout, talk, state=wanted.state)
    finally:
        talk.done()
    if wanted.state is None:
        status = cluster.status()
        if status["state"] == ClusterState.DEGRADED:
            note(f"{status['name']} is degraded: {first_words(status.get('reason') or '')}")
        end_degraded(status)


def end_degraded(status: Mapping[str, Any]) -> None:
    """End the command with `EXIT_DEGRADED` if *status* is degraded."""
    if status["state"] == ClusterState.DEGRADED:
        click.get_current_context().exit(EXIT_DEGRADED)


@click.command("up")
@pass_around
@source_options
@form_option
@click.option("--wait/--no-wait", default=True, help="Wait until it serves. [default: wait]")
@click.option("--timeout", default="15m", show_default=True, help="How long to wait.")
@click.option("--dry-run", is_flag=True, help="Print what would be done, but do nothing.")
def up_command(  # noqa: PLR0913 (one for each option)
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
    talk, cluster = Talk(), source.cluster(around)
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
        said = "nothing was started"
        if cluster.url is not None or talk.phase not in _NOTHING_YET:
            said = f"it keeps running: `tarn down -c {cluster.name}` ends it"
        click.echo(f"\n{said}", err=True)
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
    """Return the addresses of the cluster, the file of its api token, and commands to try."""
    name = status["name"]
    serving = [item for item in status["instances"] if item["state"] == "ready" and item["http"]]
    lines = [f"{name} is {status['state']}: {status['ready']} of {status['desired']} ready"]
    lines += [f"! {first_words(status['reason'])}"] * bool(status.get("reason"))
    lines += issue_lines(status)
    rows = [("serves", f"http://{item['http']}") for item in serving]
    rows.append(("API", f"{url} (api token: {kept})" if kept.is_file() else str(url)))
    if serving:
        models = serving[0].get("models", ())
        ready = [model["name"] for model in models if model["state"] == "READY"]
        path = f"/v2/models/{quote(ready[0], safe='')}" if ready else "/v2"
        rows.append(("try", pasted("curl", "-s", f"http://{serving[0]['http']}{path}")))
    rows.append(("end it", f"tarn down -c {name}"))
    table = columns(("", ""), rows).splitlines()
    return "\n".join((*lines, *table[1:]))


def foretold(plan: Mapping[str, Any]) -> str:
    """Return the plan of a dry run as text."""
    origins, commands = plan["origins"], []
    keys = [
        (key, value if isinstance(value, str) else json.dumps(value), origins.get(key, "default"))
        for key, value in flat(plan["spec"])
    ]
    for words in plan["commands"]:
        commands += [shlex.quote(words[0]), *(f"  {shlex.quote(word)}" for word in words[1:])]
    findings = [
        f"{'!' if one['fatal'] else 'note'} [{one['code']}] {one['where']}: {one['found']}. "
        f"{one['next_step']}"
        for one in plan["findings"]
    ]
    state = "runs: `tarn up` would attach to it" if plan["running"] else "would be started"
    return "\n".join(
        (
            f"{plan['name']} {state}; this is a dry run; nothing was done",
            *_part("spec", columns(("KEY", "VALUE", "FROM"), keys).splitlines()),
            *_part("command of each instance", commands),
            *_part(
                "environment of each instance (the rest is inherited; paths go before its own)",
                [f"{name}={shlex.quote(value)}" for name, value in plan["environment"].items()],
            ),
            *_part("ask", _ask(plan["ask"])),
            *_part("files", columns(("", ""), plan["files"].items()).splitlines()[1:]),
            *_part("findings", findings),
        )
    )


def exit_code(plan: Mapping[str, Any]) -> int:
    """Return the exit code of `tarn up`: 2 for an error in the spec, 1 for any other, or 0."""
    fatal = [finding["code"] for finding in plan["findings"] if finding["fatal"]]
    if not fatal:
        return 0
    return 2 if any(code.startswith("TARN-2") for code in fatal) else 1


def _part(title: str, lines: Sequence[str]) -> list[str]:
    return ["", f"{title}:", *(f"  {line}" for line in lines)] if lines else []


def _ask(ask: Mapping[str, Any]) -> list[str]:
    replicas = ask["replicas"]
    rows = [
        ("each instance", *_amounts(ask["instance"])),
        (f"{replicas['initial']} at first", *_amounts(ask["initial"])),
        (f"{replicas['max']} at most", *_amounts(ask["max"])),
    ]
    table = columns(("", "VCORES", "MEMORY", "GPUS"), rows).splitlines()
    kind = ask["instance"]["gpu_resource"]
    return [*table, *([f"GPUs are {kind}"] if ask["instance"]["gpus"] else [])]


def _amounts(amounts: Mapping[str, Any]) -> tuple[str, str, str]:
    return str(amounts["vcores"]), f"{amounts['memory_mib']} MiB", str(amounts["gpus"])


@click.command("down")
@cluster_option
@pass_around
@click.option(
    "--timeout", default="15m", show_default=True, help="How long to wait for the cluster to end."
)
def down_command(around: ClusterEnvironment, *, name: str | None, timeout: str) -> None:
    """End a cluster: withdraw, drain, stop; only logs are left.

    A master that does not answer for 10 s is ended by force, with a message. Ending a cluster twice
    is not an error.
    """
    try:
        meant = name or choose(around)
    except NotFoundError:
        click.echo("no cluster is running")
        return
    try:
        cluster = connect(meant, environment=around)
    except NotFoundError:
        click.echo(f"cluster '{meant}' is not running")
        return
    talk = Talk()
    try:
        done = cluster.down(timeout, talk)
    finally:
        talk.done()
    click.echo(done)
