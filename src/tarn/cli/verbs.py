"""The table of verbs. `tarn --help` reads it, and imports no verb."""

import importlib
from collections.abc import Mapping

import click

from tarn.plain import did_you_mean
from tarn.release import DISTRIBUTION

__all__ = ["VERBS", "LazyGroup", "root"]

# By verb: the module, and one line of help. The command is ``VERB_command`` in that module; without
# a module, a plugin that comes with TARN has it.
VERBS = {
    "up": ("tarn.cli.life", "Start a cluster, or attach to it when it runs."),
    "down": ("tarn.cli.life", "End a cluster: withdraw, drain, stop."),
    "status": ("tarn.cli.look", "Show a cluster, or list all."),
    "update": ("tarn.cli.update", "Take a changed spec or changed models, without an outage."),
    "rollback": ("tarn.cli.update", "Undo the newest update."),
    "scale": ("tarn.cli.size", "Set the number of replicas by hand."),
    "adapt": ("tarn.cli.size", "Let the scaling policy choose the size, within limits."),
    "wait": ("tarn.cli.life", "Wait until a cluster serves."),
    "events": ("tarn.cli.look", "Show events."),
    "logs": ("tarn.cli.logs", "Show the log of an instance, or of the master."),
    "metrics": (
        "tarn.cli.metrics",
        "Show a cluster's metrics; write what Prometheus and Grafana need.",
    ),
    "dashboard": ("tarn.cli.look", "Print a link that opens a cluster's dashboard."),
    "watch": ("tarn.cli.look", "Show a cluster as it changes."),
    "why": ("tarn.cli.look", "Explain why something is not as desired."),
    "verify": ("tarn.cli.look", "Send canary inferences; report which were lost, and where."),
    "pause": ("tarn.cli.size", "Stop scaling decisions for a while."),
    "resume": ("tarn.cli.size", "End a pause; launch and replace again."),
    "drain": ("tarn.cli.size", "Withdraw, drain and replace one instance."),
    "models": (
        "tarn.cli.models",
        "Load and unload models on every instance; show which have them.",
    ),
    "scaling": ("tarn.cli.size", "Explain the size: signals, decisions, next step."),
    "simulate": ("", "Try a scaling policy against a load, without a cluster."),
    "lint": ("tarn.cli.lint", "Find problems in a model repository; --fix repairs them."),
    "doctor": (
        "tarn.cli.doctor",
        "Find problems around a cluster before it starts, and their fixes.",
    ),
    "plugins": ("tarn.cli.help", "List what plugins offer."),
    "config": ("tarn.cli.config", "Explain or describe the configuration."),
    "secrets": ("tarn.cli.secrets", "List, write and check the secrets that instances get."),
    "compat": ("tarn.cli.config", "Translate a command of the Java TARN into a tarn.yaml."),
    "support-bundle": (
        "",
        "Collect diagnostics into one file, without secrets.",
    ),
    "completion": ("tarn.cli.help", "Print a shell's completion script."),
    "help": ("tarn.cli.help", "Explain a verb, or a code such as TARN-2102."),
}
# Names that other programs use for our verbs.
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


class LazyGroup(click.Group):
    """A group that imports a verb when it is used, and loads plugins only for their verbs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the built-in verbs, in the order of the table, then those of plugins."""
        return [*VERBS, *(verb for verb in _brought(ctx) if verb not in VERBS)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a built-in verb, or one of a plugin."""
        module, _ = VERBS.get(cmd_name, ("", ""))
        if module:
            command: click.Command = getattr(importlib.import_module(module), f"{cmd_name}_command")
            return command
        return _brought(ctx).get(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the verb of *args*, or raise an error that suggests a similar one."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            word = args[0]
            if word.startswith("-"):
                raise
            if word in VERBS:
                found = f"'{word}' comes with a plugin of TARN, which was left out or failed"
                raise click.UsageError(found, ctx) from error
            other = _OTHERS.get(word.lower())
            near = f"Did you mean '{other}'?" if other else did_you_mean(word, VERBS)
            found = f"there is no verb '{word}'. {near or '`tarn help` lists the verbs'}"
            raise click.UsageError(found, ctx) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each verb with its line of the table."""
        with formatter.section("Verbs"):
            formatter.write_dl([(verb, line) for verb, (_, line) in VERBS.items()])


def _brought(ctx: click.Context) -> Mapping[str, click.Command]:
    """Return the verbs of plugins."""
    # Imported only here: loading plugins takes longer than most built-in verbs.
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
