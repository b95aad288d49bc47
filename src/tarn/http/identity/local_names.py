"""How this machine calls people: by the rules of its krb5.conf, and its list of groups."""

import ctypes
import functools
import grp
import os
import pwd
from typing import Any

__all__ = ["LocalNames"]

LONGEST = 256


class LocalNames:
    """The `UserDirectory` of this machine. Thread-safe; may wait for a directory service."""

    def short(self, principal: str) -> str:
        r"""Return the local name of *principal* by ``auth_to_local`` of krb5.conf.

        Without a rule of its own a realm's user has the name before the ``@``, and nobody of
        another realm, and no service, has one; nor has a principal with a character that must be
        escaped: ``alice\@OTHER@REALM`` would be ``alice@OTHER``, whom another realm has.
        """
        if "\\" in principal:
            return ""
        library = _kerberos()
        context = ctypes.c_void_p()
        if library.krb5_init_context(ctypes.byref(context)):
            return ""
        try:
            return _short(library, context, principal)
        finally:
            library.krb5_free_context(context)

    def groups(self, user: str) -> frozenset[str]:
        """Return the names of the groups of *user*; of a group without a name, nothing."""
        try:
            entry = pwd.getpwnam(user)
        except KeyError:
            return frozenset()
        return frozenset(
            name for number in os.getgrouplist(user, entry.pw_gid) if (name := _group(number))
        )


def _short(library: Any, context: ctypes.c_void_p, principal: str) -> str:
    parsed = ctypes.c_void_p()
    if library.krb5_parse_name(context, principal.encode(), ctypes.byref(parsed)):
        return ""
    try:
        name = ctypes.create_string_buffer(LONGEST)
        failed = library.krb5_aname_to_localname(context, parsed, LONGEST, name)
        return "" if failed else name.value.decode(errors="replace")
    finally:
        library.krb5_free_principal(context, parsed)


@functools.cache
def _kerberos() -> Any:
    """Return MIT's libkrb5, which `gssapi` uses too: that one has no way to this function.

    By its name on Linux: `ctypes.util` would start a program to look for it,
    which no process with a JVM may.
    """
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
