"""What contradicts itself in how a master is asked for proof. Pure."""

import ipaddress
import re
from collections.abc import Iterator

from tarn.domain.spec import ApiSpec, TrustedProxy

__all__ = ["perimeter_problems"]

_SOURCE = re.compile(r"(?:file|env):.+")


def perimeter_problems(api: ApiSpec) -> Iterator[tuple[str, str]]:
    """Yield (path, what is wrong) for every contradiction in *api*'s trusted proxies.

    What is said of certificates stands with TLS, in `tarn.domain.spec`.
    """
    names = [one.name for one in api.trusted_proxies]
    for number, one in enumerate(api.trusted_proxies):
        path = f"api.trusted_proxies[{number}]"
        if one.name in names[:number]:
            yield f"{path}.name", f"= '{one.name}' is there twice; give each proxy its own name"
        yield from _address(path, one)
        yield from _proof(path, one, api)
        if not one.users and not one.groups:
            yield (
                f"{path}.users",
                "= [] without groups: the proxy could speak for nobody; list some users, or '*'",
            )
        if "*" in one.users and one.groups:
            found = (
                "is given, but users = ['*'] already means everybody; for the group's members "
                "only, write users: []"
            )
            yield f"{path}.groups", found


def _address(path: str, proxy: TrustedProxy) -> Iterator[tuple[str, str]]:
    try:
        ipaddress.ip_network(proxy.address)
    except ValueError:
        yield (
            f"{path}.address",
            f"= '{proxy.address}' is neither an address nor a network; {_right(proxy)}",
        )


def _right(proxy: TrustedProxy) -> str:
    """Say what would be right: mostly the network of an address was meant, or the address."""
    try:
        one = ipaddress.ip_interface(proxy.address)
    except ValueError:
        return "use one like 10.0.0.5 or 10.0.0.0/24"
    return f"use {one.ip} or {one.network}"


def _proof(path: str, proxy: TrustedProxy, api: ApiSpec) -> Iterator[tuple[str, str]]:
    if proxy.authenticated_by == "kerberos" and api.spnego is None:
        yield f"{path}.authenticated_by", "= 'kerberos' needs api.spnego"
    if proxy.authenticated_by == "token":
        if proxy.token is None:
            yield f"{path}.token", "is missing, and authenticated_by = 'token' needs it"
        elif not _SOURCE.fullmatch(proxy.token):  # never the value: it may be a token
            yield f"{path}.token", "does not say where the token is; use 'file:PATH' or 'env:NAME'"
    elif proxy.token is not None:
        yield (
            f"{path}.token",
            f"is given, but authenticated_by = '{proxy.authenticated_by}' does not use it",
        )
