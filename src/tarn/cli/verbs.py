"""The table of verbs. `tarn --help` reads it, and imports no verb."""

import importlib
from collections.abc import Mapping

import click

from tarn.plain import did_you_mean
from tarn.release import DISTRIBUTION

__all__ = ["VERBS", "LazyGroup", "root"]

VERBS = {
    "up": ("tarn.cli.up", "Start a cluster, or attach to it when it runs."),
    "down": ("tarn.cli.down", "End a cluster: withdraw, drain, stop."),
    "status": ("tarn.cli.status", "Show a cluster, or list all."),
    "scale": ("tarn.cli.scale", "Set the number of replicas by hand."),
    "adapt": ("tarn.cli.adapt", "Let the scaling policy choose the size, within limits."),
    "wait": ("tarn.cli.wait", "Wait until a cluster serves."),
    "events": ("tarn.cli.events", "Show events."),
    "logs": ("tarn.cli.logs", "Show the log of an instance, or of the master."),
    "metrics": (
        "tarn.cli.metrics",
        "Show a cluster's metrics; write what Prometheus and Grafana need.",
    ),
    "dashboard": ("tarn.cli.dashboard", "Print a link that opens a cluster's dashboard."),
    "watch": ("tarn.cli.watch", "Show a cluster as it changes."),
    "why": ("tarn.cli.why", "Explain why something is not as desired."),
    "verify": ("tarn.cli.verify", "Send canary inferences; report which were lost, and where."),
    "pause": ("tarn.cli.pause", "Stop scaling decisions for a while."),
    "resume": ("tarn.cli.resume", "End a pause; launch and replace again."),
    "drain": ("tarn.cli.drain", "Withdraw, drain and replace one instance."),
    "models": (
        "tarn.cli.models",
        "Load and unload models on every instance; show which have them.",
    ),
    "scaling": ("tarn.cli.scaling", "Explain the size: signals, decisions, next step."),
    "simulate": ("tarn.cli.simulate", "Try a scaling policy against a load, without a cluster."),
    "lint": ("tarn.cli.lint", "Find problems in a model repository; --fix repairs them."),
    "doctor": (
        "tarn.cli.doctor",
        "Find problems around a cluster before it starts, and their fixes.",
    ),
    "plugins": ("tarn.cli.plugins", "List what plugins offer."),
    "config": ("tarn.cli.config", "Explain or describe the configuration."),
    "secrets": ("tarn.cli.secrets", "List, write and check the secrets that instances get."),
    "compat": ("tarn.cli.compat", "Translate a command of the Java TARN into a tarn.yaml."),
    "support-bundle": (
        "tarn.cli.support_bundle",
        "Collect diagnostics into one file, without secrets.",
    ),
    "completion": ("tarn.cli.completion", "Print a shell's completion script."),
    "help": ("tarn.cli.help", "Explain a verb, or a code such as TARN-2102."),
}
"""Verb to (module, one line); the module's ``command`` is the click command."""


_OTHERS = {
    **dict.fromkeys(("ps", "ls", "list", "get", "info", "show", "describe"), "status"),
    **dict.fromkeys(("stop", "delete", "rm", "remove", "kill", "destroy", "end"), "down"),
    **dict.fromkeys(("start", "run", "create", "apply", "deploy", "launch", "submit"), "up"),
    **dict.fromkeys(("log", "tail"), "logs"),
    **dict.fromkeys(("resize", "size"), "scale"),
    **dict.fromkeys(("top", "monitor"), "watch"),
    **dict.fromkeys(("autoscale", "auto"), "adapt"),
    **dict.fromkeys(("check", "test", "diagnose"), "doctor"),
    **dict.fromkeys(("validate", "verify-repository"), "lint"),
    "explain": "why",
    "version": "--version",
}
"""What others call it, to our verb."""


class LazyGroup(click.Group):
    """A group that imports a verb when it is used, and asks plugins only for verbs of theirs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the built-in verbs, in the order of the table, then those of plugins."""
        return [*VERBS, *_brought(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a verb; one that is not built in may come from a plugin."""
        if cmd_name in VERBS:
            module, _ = VERBS[cmd_name]
            command: click.Command = importlib.import_module(module).command
            return command
        return _brought(ctx).get(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the verb that is meant; a slip is told with the verb that it is nearest to."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            word = args[0]
            if word.startswith("-"):
                raise
            other = _OTHERS.get(word.lower())
            near = f"Did you mean '{other}'?" if other else did_you_mean(word, VERBS)
            found = f"there is no verb '{word}'. {near or '`tarn help` lists the verbs'}"
            raise click.UsageError(found, ctx) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the verbs with the table's one-liners."""
        with formatter.section("Verbs"):
            formatter.write_dl([(verb, line) for verb, (_, line) in VERBS.items()])


def _brought(ctx: click.Context) -> Mapping[str, click.Command]:
    """Return the verbs of plugins, which are loaded for them: what is built in saves that."""
    found: Mapping[str, click.Command] = importlib.import_module("tarn.cli.foreign").verbs(ctx)
    return found


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="`tarn VERB --help` says more about a verb; plugins add verbs, such as `tarn sandbox`.",
)
@click.version_option(package_name=DISTRIBUTION)
def root() -> None:
    """Run fleets of NVIDIA Triton Inference Server."""
