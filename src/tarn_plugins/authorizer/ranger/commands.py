"""`tarn ranger`: the service definition, a service and its policies in Ranger Admin."""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import attrs
import click

from tarn.errors import ConfigError, TarnError
from tarn.interfaces import ClientContext, Progress
from tarn_plugins.authorizer.ranger.admin import Admin, RangerAdminLogin
from tarn_plugins.authorizer.ranger.setup_file import RangerSetup, SetupStep, parse, steps

__all__ = ["ranger"]

PASSWORD = "RANGER_ADMIN_PASSWORD"  # noqa: S105 (a name)
_DONE = {"create": "created", "update": "updated", "same": "unchanged", "differs": "left alone"}
_OPTIONS = (
    click.argument("file", type=click.Path(path_type=Path, dir_okay=False)),
    click.option("--url", metavar="URL", required=True, help="URL of Ranger Admin."),
    click.option("--user", metavar="NAME", default="admin", show_default=True, help="Who asks."),
    click.option(
        "--password-file",
        metavar="FILE",
        type=click.Path(path_type=Path, dir_okay=False),
        help=f"File with the password. [default: {PASSWORD}]",
    ),
    click.option(
        "--ca",
        metavar="FILE",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Authorities that the server's certificate must come from. [default: the machine's]",
    ),
)


@attrs.frozen
class _AdminContext:
    """What both commands are given."""

    wanted: RangerSetup
    admin: Admin
    context: ClientContext


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def ranger() -> None:
    """Ranger Admin: what TARN needs there.

    The password is read from a file or from RANGER_ADMIN_PASSWORD, never from an argument, which
    every user of the machine can read.
    """


def _with_options(command: Any) -> Any:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@ranger.command()
@_with_options
@click.option("--dry-run", is_flag=True, help="Print what would be done, but do nothing.")
@click.option(
    "--update-definition",
    is_flag=True,
    help="Replace a definition 'triton' that differs; without this it is left alone.",
)
@click.pass_context
def install(ctx: click.Context, /, *, dry_run: bool, update_definition: bool, **given: Any) -> None:
    """Put the service definition, the service and the policies of FILE into Ranger Admin.

    It does not change what is already correct, so you can run it again; policies that are not in
    FILE stay. docs/reference/ranger.md shows such a file.
    """
    asked = _asked(ctx, given)
    for step in _steps(asked, update=update_definition):
        if not dry_run:
            asked.admin.do(step)
        verb = f"would {step.verb}" if dry_run and step.body else _DONE[step.verb]
        click.echo(f"{verb:<14} {step.what:<11} {step.name}")


@ranger.command()
@_with_options
@click.pass_context
def check(ctx: click.Context, /, **given: Any) -> None:
    """Check whether Ranger Admin has everything in FILE; exit code 1 if something is missing."""
    asked = _asked(ctx, given)
    words = {"create": "missing", "update": "other", "differs": "other", "same": "there"}
    found = _steps(asked, update=False)
    for step in found:
        click.echo(f"{words[step.verb]:<14} {step.what:<11} {step.name}")
    if any(step.verb != "same" for step in found):
        ctx.exit(1)


def _asked(ctx: click.Context, given: dict[str, Any]) -> _AdminContext:
    context: ClientContext = ctx.meta["tarn.context"]
    file, url = given["file"], given["url"]
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise click.UsageError("--url is not a URL such as https://ranger.example.com:6182", ctx)
    if "@" in parts.netloc:
        raise click.UsageError("--url contains a user; give it with --user", ctx)
    wanted = parse(_read(file, "TARN-3414"), str(file))
    password = _password(given["password_file"], context)
    if parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
        _say(
            context, "note: the password goes to Ranger Admin unencrypted; use https to protect it"
        )
    admin = Admin(RangerAdminLogin(url, given["user"], password, given["ca"]))
    ctx.call_on_close(admin.close)
    return _AdminContext(wanted, admin, context)


def _steps(asked: _AdminContext, *, update: bool) -> tuple[SetupStep, ...]:
    there = asked.admin.there(asked.wanted.service)
    found = steps(asked.wanted, there, update_definition=update)
    for step in found:
        for note in step.notes:
            _say(asked.context, f"{step.what} '{step.name}': {note}")
    wrong = next((s for s in found if s.what == "service" and s.verb == "differs"), None)
    if wrong is not None:
        raise TarnError(wrong.notes[0], code="TARN-3412", where=f"service '{wrong.name}'")
    if any(step.what == "definition" and step.verb == "differs" for step in found):
        help_ = "`--update-definition` replaces it with the one of this version"
        _say(asked.context, f"note: TARN-3413: another definition is there and left alone; {help_}")
    return found


def _password(file: Path | None, context: ClientContext) -> str:
    text = _read(file, "TARN-3415") if file else context.environ.get(PASSWORD, "")
    password = text.rstrip("\r\n")
    if not password:
        raise ConfigError(
            "no password for Ranger Admin",
            code="TARN-3415",
            where=str(file or PASSWORD),
            next_step=f"Write it into a file that only you may read, and name it with "
            f"--password-file; or set {PASSWORD}",
        )
    return password


def _read(file: Path, code: str) -> str:
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "no UTF-8"
        raise ConfigError(f"cannot be read ({why})", code=code, where=str(file)) from error


def _say(context: ClientContext, text: str) -> None:
    context.progress(Progress("preflight", text))
