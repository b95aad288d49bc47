"""The address of a cluster's dashboard, with a code that signs a browser in once."""

import os
import webbrowser
from collections.abc import Callable
from html import escape
from pathlib import Path

from tarn.cluster.link import Link
from tarn.cluster.read.card import anchor
from tarn.domain import ANONYMOUS
from tarn.errors import NotAuthorizedError, RefusedError, TarnError
from tarn.follow import MasterApi

__all__ = ["Address", "dashboard_link", "opened"]


class Address(str):
    """A URL, which a notebook shows as a link; its code signs in once, within a minute."""

    __slots__ = ()

    @property
    def signs_in(self) -> bool:
        """Whether the URL has a code."""
        return "#code=" in self

    def _repr_html_(self) -> str:
        return anchor(self, "open the dashboard")


def dashboard_link(link: Link) -> Address:
    """Return the address of the dashboard; with a code if the api token is kept here.

    Raises:
        NotFoundError: There is no such cluster.
        UnreachableError: Its master does not answer.
        NotAuthorizedError: Its master denies access.
    """

    def sign_in_code(api: MasterApi) -> str:
        if link.proxied:  # a runtime's proxy passes no sign-in on
            return ""
        try:
            return str(api.link()["code"])
        except RefusedError:  # this master needs no token
            return ""
        except NotAuthorizedError as error:
            if error.principal == ANONYMOUS.user:
                raise
            return ""  # a user with a Kerberos ticket, which the browser has as well

    code = link.ask(sign_in_code)
    page = f"{(link.url or '').rstrip('/')}/dashboard"
    return Address(f"{page}#code={code}" if code else page)


def opened(address: Address, page: Path, browse: Callable[[str], bool] = webbrowser.open) -> bool:
    """Open *address* in this machine's browser; return whether there is one.

    Raises:
        TarnError: The file *page*, which leads to the address, cannot be written.
    """
    # Every user of the machine can read the arguments of the browser, but not this file.
    leads = f"<!doctype html><title>TARN</title><meta name='referrer' content='no-referrer'>\n\
<meta http-equiv='refresh' content='0; url={escape(address, quote=True)}'>\n\
{anchor(address, 'the dashboard')}\n"
    try:
        page.unlink(missing_ok=True)
        descriptor = os.open(page, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:  # noqa: PTH123 (a descriptor)
            file.write(leads)
    except OSError as error:
        raise TarnError(
            f"cannot be written ({error.strerror})",
            where=str(page),
            next_step="Open the link that was printed in your browser",
        ) from error
    return browse(page.resolve().as_uri())
