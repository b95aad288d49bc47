"""`tarn ranger`: the service definition, a service and its policies in Ranger Admin.

It uses PyPI's apache-ranger. That client prints to standard output when it fails, treats 503 as
"not found", and has no timeout; each is fixed here.
"""

import contextlib
import functools
import io
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import attrs
import click

from tarn.errors import ConfigError, ProviderError, ProviderMissingError, TarnError
from tarn.interfaces import ClientContext, Progress
from tarn.java import mask
from tarn_plugins.authorizer.ranger.setup_file import (
    AdminState,
    RangerSetup,
    SetupStep,
    parse,
    steps,
)
from tarn_plugins.authorizer.ranger.site import SERVICE_TYPE

__all__ = ["Admin", "ranger"]

# For each answer. Ranger Admin writes a policy in tens of milliseconds; its database may be slow.
WITHIN_S = 20.0


class Admin:
    """A connection to Ranger Admin. One thread.

    Args:
        url: URL of Ranger Admin.
        user: The user to log in as.
        password: The user's password.
        ca: PEM file with the authorities to trust; None for those of the machine.

    Raises:
        ProviderMissingError: The client is not installed.
    """

    def __init__(self, url: str, user: str, password: str, ca: Path | None) -> None:
        self._client, self._failure = _client(url, user, password, ca)
        self._url, self._user = url, user

    def there(self, service: str) -> AdminState:
        """Return the definition, *service* and its policies in Ranger Admin.

        Raises:
            ProviderError: It does not answer (TARN-3410), or denies access (TARN-3411).
        """
        with self._asking():
            definition = self._client.get_service_def(SERVICE_TYPE)
            found = self._client.get_service(service)
            policies = self._client.get_policies_in_service(service) if found else []
        return AdminState(definition, found, tuple(policies or ()))

    def do(self, step: SetupStep) -> None:
        """Carry out a step that creates or updates; others do nothing.

        Raises:
            ProviderError: As for `there`; or Ranger Admin refuses the content (TARN-3412).
        """
        client, body = self._client, dict(step.body)
        calls = {
            ("definition", "create"): lambda: client.create_service_def(body),
            ("definition", "update"): lambda: client.update_service_def(step.name, body),
            ("service", "create"): lambda: client.create_service(body),
            ("service", "update"): lambda: client.update_service(step.name, body),
            ("policy", "create"): lambda: client.create_policy(body),
            ("policy", "update"): lambda: client.update_policy_by_id(body.get("id"), body),
        }
        call = calls.get((step.what, step.verb))
        if call is not None:
            with self._asking(f"{step.what} '{step.name}'"):
                call()

    def close(self) -> None:
        """Close the connections. Idempotent."""
        self._client.session.close()

    @contextlib.contextmanager
    def _asking(self, about: str = "") -> Iterator[None]:
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                yield
        except self._failure as error:
            raise self._refused(error, about) from error
        except OSError as error:  # from requests: no connection, no answer, bad certificate
            found = f"it does not answer: {mask(str(error))[:300]}"
            step = (
                "Check the URL; for a certificate of the site's own authority, name that "
                "authority with --ca"
            )
            raise self._trouble("TARN-3410", found, step) from error

    def _refused(self, error: Any, about: str) -> ProviderError:
        said = mask(_text(error))
        if error.statusCode in (401, 403):
            found = f"it denies access to the user '{self._user}' (HTTP {error.statusCode})"
            step = "Use a user with the role admin, and check the password"
            return self._trouble("TARN-3411", found, step)
        if error.statusCode == 400:  # noqa: PLR2004
            step = "Add the users and groups to Ranger Admin first, with its sync or by hand"
            return self._trouble("TARN-3412", f"it refuses the {about}: {said}", step)
        found = f"it answered HTTP {error.statusCode}: {said}"
        return self._trouble("TARN-3410", found, "See its log")

    def _trouble(self, code: str, found: str, step: str) -> ProviderError:
        where = f"Ranger Admin at {_host(self._url)}"
        return ProviderError("ranger", found, code=code, where=where, next_step=step)


def _client(url: str, user: str, password: str, ca: Path | None) -> tuple[Any, type[Exception]]:
    try:
        from apache_ranger.client.ranger_client import RangerClient  # noqa: PLC0415
        from apache_ranger.exceptions import RangerServiceException  # noqa: PLC0415
    except ImportError as error:
        raise ProviderMissingError(
            "ranger",
            "it connects to Ranger Admin, and "
            f"{ProviderMissingError.reason('apache_ranger', error)}",
            next_step="pip install 'tarn-orchestrator[ranger]'",
        ) from error
    logging.getLogger("apache_ranger").setLevel(logging.CRITICAL)
    client = RangerClient(url, (user, password))
    session = client.session
    session.trust_env = False  # no proxy, and no .netrc in place of the password
    session.verify = str(ca) if ca else True
    session.request = functools.partial(session.request, timeout=WITHIN_S, allow_redirects=False)
    session.hooks["response"].append(_not_away)
    return client, RangerServiceException


def _not_away(response: Any, *_more: object, **_most: object) -> None:
    if response.status_code == 503:  # noqa: PLR2004
        response.close()
        raise ConnectionError("HTTP 503, unavailable")


def _text(error: Any) -> str:
    said = error.msgDesc
    text = said.decode(errors="replace") if isinstance(said, bytes) else str(said or "")
    return " ".join(text.split())[:500] or "without a message"


def _host(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2] or "the URL"


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
    """The parsed arguments of both commands."""

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
        text = "the password goes to Ranger Admin unencrypted; use https to protect it"
        _say(context, text, note=True)
    admin = Admin(url, given["user"], password, given["ca"])
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
        text = f"TARN-3413: another definition is there and left alone; {help_}"
        _say(asked.context, text, note=True)
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


def _say(context: ClientContext, text: str, *, note: bool = False) -> None:
    context.progress(Progress("preflight", text, note=note))
