"""Ranger Admin over HTTP, by PyPI's apache-ranger: what is there, and putting something there.

That client prints to standard output when it fails, takes 503 for "not found", and waits for ever;
each is fixed here.
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

from tarn.errors import ProviderError, ProviderMissingError
from tarn.java import mask
from tarn_plugins.authorizer.ranger.settings import SERVICE_TYPE
from tarn_plugins.authorizer.ranger.setup_file import AdminState, SetupStep

__all__ = ["Admin", "RangerAdminLogin"]

WITHIN_S = 20.0
"""For each answer. Ranger Admin writes a policy in tens of milliseconds; its database may not."""


@attrs.frozen
class RangerAdminLogin:
    """Where Ranger Admin is, and who logs in."""

    url: str
    user: str
    password: str = attrs.field(repr=False)
    ca: Path | None = None
    """Certificates of who signed the server's; None: those of the machine."""


class Admin:
    """A connection to Ranger Admin. One thread.

    Raises:
        ProviderMissingError: The client is not installed.
    """

    def __init__(self, login: RangerAdminLogin) -> None:
        self._client, self._failure = _client(login)
        self._login = login

    def there(self, service: str) -> AdminState:
        """Return what Ranger Admin has of the definition, and of *service*.

        Raises:
            ProviderError: It does not answer (TARN-3410), or lets this user not in (TARN-3411).
        """
        with self._asking():
            definition = self._client.get_service_def(SERVICE_TYPE)
            found = self._client.get_service(service)
            policies = self._client.get_policies_in_service(service) if found else []
        return AdminState(definition, found, tuple(policies or ()))

    def do(self, step: SetupStep) -> None:
        """Do one step that creates or updates; anything else is nothing to do.

        Raises:
            ProviderError: As for `there`; or what is sent does not suit (TARN-3412).
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
        except OSError as error:  # of requests: no connection, no answer, no certificate
            found = f"it does not answer: {mask(str(error))[:300]}"
            step = (
                "Check the URL; for a certificate of the site's own authority, name that "
                "authority with --ca"
            )
            raise self._trouble("TARN-3410", found, step) from error

    def _refused(self, error: Any, about: str) -> ProviderError:
        said = mask(_text(error))
        if error.statusCode in (401, 403):
            found = f"it denies access to the user '{self._login.user}' (HTTP {error.statusCode})"
            step = "Use a user with the role admin, and check the password"
            return self._trouble("TARN-3411", found, step)
        if error.statusCode == 400:  # noqa: PLR2004
            step = "Add the users and groups to Ranger Admin first, with its sync or by hand"
            return self._trouble("TARN-3412", f"it refuses the {about}: {said}", step)
        found = f"it answered HTTP {error.statusCode}: {said}"
        return self._trouble("TARN-3410", found, "See its log")

    def _trouble(self, code: str, found: str, step: str) -> ProviderError:
        where = f"Ranger Admin at {_host(self._login.url)}"
        return ProviderError("ranger", found, code=code, where=where, next_step=step)


def _client(login: RangerAdminLogin) -> tuple[Any, type[Exception]]:
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
    client = RangerClient(login.url, (login.user, login.password))
    session = client.session
    session.trust_env = False  # no proxy, and no .netrc in place of the password
    session.verify = str(login.ca) if login.ca else True
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
