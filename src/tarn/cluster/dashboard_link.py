"""The way into a cluster's dashboard: its address, and a code that signs a browser in once."""

import os
import webbrowser
from collections.abc import Callable
from html import escape
from pathlib import Path

from tarn.cluster.anchor import anchor
from tarn.cluster.link import Link
from tarn.domain import ANONYMOUS
from tarn.errors import NotAuthorizedError, RefusedError, TarnError
from tarn.follow import MasterApi

__all__ = ["Address", "dashboard_link", "opened"]


class Address(str):
    """A URL as text; a notebook shows a link. A code in it signs in once, within a minute."""

    __slots__ = ()

    @property
    def signs_in(self) -> bool:
        """Whether it holds a code."""
        return "#code=" in self

    def _repr_html_(self) -> str:
        return anchor(self, "open the dashboard")


def dashboard_link(link: Link) -> Address:
    """Return the address of the dashboard for whoever asks through *link*.

    It holds a code where the cluster has an api token and it is kept here. No code leads through a
    runtime's proxy, and who shows tickets, or is asked for nothing, needs none.

    Raises:
        NotFoundError: There is no such cluster.
        UnreachableError: Its master does not answer.
        NotAuthorizedError: It does not let us in.
    """
    code = link.ask(lambda api: "" if link.proxied else _code(api))
    page = f"{(link.url or '').rstrip('/')}/dashboard"
    return Address(f"{page}#code={code}" if code else page)


def opened(address: Address, page: Path, browse: Callable[[str], bool] = webbrowser.open) -> bool:
    """Open *address* in this machine's browser; say whether there is one.

    What a browser is started with every user of the machine may read, so it is started with the
    file *page*, which only its owner may read, and which leads to the address.

    Raises:
        TarnError: *page* cannot be written.
    """
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


def _code(api: MasterApi) -> str:
    try:
        return str(api.link()["code"])
    except RefusedError:  # this master asks for no token
        return ""
    except NotAuthorizedError as error:
        if error.principal == ANONYMOUS.user:
            raise
        return ""  # whose ticket a browser has, too
