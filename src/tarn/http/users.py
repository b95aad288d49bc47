"""Names and groups of users: as this machine knows them, and cached for a minute."""

import ctypes
import functools
import grp
import os
import pwd
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from tarn.http.blocking_pool import BlockingPool
from tarn.interfaces import UserDirectory

__all__ = ["LocalNames", "People"]

LONGEST = 256


class LocalNames:
    """The `UserDirectory` of this machine. Thread-safe; may wait for a directory service."""

    def short(self, principal: str) -> str:
        """Return the local name of *principal* by ``auth_to_local`` of krb5.conf, or ''.

        Without a rule, a user of the default realm has the name before the ``@``; services, and
        users of other realms, have none.
        """
        # Unescaped, ``alice\@OTHER@REALM`` would be ``alice@OTHER``, a user of another realm.
        if "\\" in principal:
            return ""
        library = _kerberos()
        context, parsed = ctypes.c_void_p(), ctypes.c_void_p()
        if library.krb5_init_context(ctypes.byref(context)):
            return ""
        try:
            if library.krb5_parse_name(context, principal.encode(), ctypes.byref(parsed)):
                return ""
            name = ctypes.create_string_buffer(LONGEST)
            failed = library.krb5_aname_to_localname(context, parsed, LONGEST, name)
            return "" if failed else name.value.decode(errors="replace")
        finally:
            library.krb5_free_principal(context, parsed)  # NULL is fine
            library.krb5_free_context(context)

    def groups(self, user: str) -> frozenset[str]:
        """Return the names of the groups of *user*, without groups that have no name."""
        try:
            entry = pwd.getpwnam(user)
        except KeyError:
            return frozenset()
        return frozenset(
            name for number in os.getgrouplist(user, entry.pw_gid) if (name := _group(number))
        )


@functools.cache
def _kerberos() -> Any:
    # MIT's libkrb5, which gssapi uses too without offering these functions. By its name on Linux:
    # `ctypes.util` would start a program to find it, and a process with a JVM must not fork.
    library = ctypes.CDLL("libkrb5.so.3")
    library.krb5_init_context.argtypes = [ctypes.c_void_p]
    library.krb5_free_context.argtypes = [ctypes.c_void_p]
    library.krb5_parse_name.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    library.krb5_free_principal.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    library.krb5_aname_to_localname.argtypes = [
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_int,
        ctypes.c_char_p,
    ]
    return library


def _group(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return ""


# How long the groups of a user are cached, and so how long a user who has left a group stays in it.
REMEMBERED_S = 60.0
MOST_REMEMBERED = 4096


class People:
    """Names and groups of users, the groups cached for a minute. On one event loop.

    Args:
        names: The directory of users.
        pool: Where it is asked.
        now_s: Returns monotonic seconds.
    """

    def __init__(
        self, names: UserDirectory, pool: BlockingPool, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._names = names
        self._pool = pool
        self._now_s = now_s
        self._kept: OrderedDict[str, tuple[float, frozenset[str]]] = OrderedDict()

    async def short(self, principal: str) -> str:
        """Return the user name of a Kerberos *principal*; empty if no rule gives one."""
        return await self._pool.ask(lambda: self._names.short(principal))

    async def groups(self, user: str) -> frozenset[str]:
        """Return the groups of *user*.

        Raises:
            ProviderError: The directory did not answer in time.
        """
        # Some directories are asked by a program (`id -Gn USER`), which would take it as an option.
        if user.startswith("-"):
            return frozenset()
        kept = self._kept.get(user)
        if kept is not None and self._now_s() - kept[0] < REMEMBERED_S:
            return kept[1]
        asked_s = self._now_s()
        found = await self._pool.ask(lambda: self._names.groups(user))
        self._kept[user] = asked_s, found
        self._kept.move_to_end(user)
        while len(self._kept) > MOST_REMEMBERED:
            self._kept.popitem(last=False)
        return found
