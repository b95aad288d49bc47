"""Find parts of a spec that are valid by themselves, but contradict each other. Pure."""

import contextlib
import ipaddress
import re
from collections.abc import Iterator
from typing import NamedTuple

from tarn.domain.spec import (
    ApiSpec,
    ClusterSpec,
    InstanceSpec,
    ReplicasSpec,
    TrustedProxy,
)

__all__ = ["Contradiction", "contradictions", "perimeter_contradictions"]

_SOURCE = re.compile(r"(?:file|env):.+")


class Contradiction(NamedTuple):
    """Two or more keys that contradict each other."""

    path: str
    """The key that is reported."""
    text: str
    """The contradiction; continues the path."""
    others: tuple[str, ...] = ()
    """The other keys: if one of them could not be read, the contradiction is not reported."""


def contradictions(spec: ClusterSpec) -> Iterator[Contradiction]:
    """Yield every contradiction between parts of *spec*."""
    yield from _size_problems(spec.replicas)
    yield from _instance_problems(spec.instance)
    yield from _cache_problems(spec)
    taken: dict[int, str] = {}
    for key in ("http_port", "grpc_port", "metrics_port"):
        port = getattr(spec.triton, key)
        if port and port in taken:
            text = f"= {port} is also triton.{taken[port]}; give each its own port"
            yield Contradiction(f"triton.{key}", text, (f"triton.{taken[port]}",))
        elif port:
            taken[port] = key
    yield from _tls_problems(spec.api)
    if spec.update.surge == 0 and spec.update.max_unavailable == 0:
        text = "= 0 with update.max_unavailable = 0: no update could ever begin"
        yield Contradiction("update.surge", text, ("update.max_unavailable",))
    yield from perimeter_contradictions(spec.api)


def _size_problems(replicas: ReplicasSpec) -> Iterator[Contradiction]:
    low, high, initial = replicas.min, replicas.max, replicas.initial
    if low > high:
        found = f"= {high} is below replicas.min = {low}; raise the one or lower the other"
        yield Contradiction("replicas.max", found, ("replicas.min",))
    elif initial is not None and not low <= initial <= high:
        found = f"= {initial} is outside replicas.min = {low} and replicas.max = {high}"
        yield Contradiction("replicas.initial", found, ("replicas.min", "replicas.max"))


def _instance_problems(instance: InstanceSpec) -> Iterator[Contradiction]:
    unready_s, replace_s = instance.unready_after_s, instance.replace_after_s
    if replace_s < unready_s:
        found = f"= {replace_s:g}s is below instance.unready_after = {unready_s:g}s"
        yield Contradiction("instance.replace_after", found, ("instance.unready_after",))
    ranks, gpus = instance.parallelism.ranks, instance.resources.gpus
    if ranks > 1 and gpus not in (0, ranks):
        found = f"= {gpus}, but parallelism.tensor x pipeline = {ranks}; they must be equal"
        ranks_of = ("instance.parallelism.tensor", "instance.parallelism.pipeline")
        yield Contradiction("instance.resources.gpus", found, ranks_of)


def _cache_problems(spec: ClusterSpec) -> Iterator[Contradiction]:
    cache, memory_mib = spec.triton.cache, spec.instance.resources.memory_mib
    if cache is not None and cache.size_mib >= memory_mib:
        found = (
            f"= {cache.size_mib}MiB is not below instance.resources.memory = {memory_mib}MiB, "
            "which also holds Triton and its models; lower the one or raise the other"
        )
        yield Contradiction("triton.cache.size", found, ("instance.resources.memory",))


def _tls_problems(api: ApiSpec) -> Iterator[Contradiction]:
    tls = api.tls
    if tls is not None and tls.keystore is None and tls.cert is None:
        text = "names no certificate; give cert and key, or keystore"
        yield Contradiction("api.tls", text, ("api.tls.cert", "api.tls.keystore"))
    elif tls is not None and tls.keystore is not None and (tls.cert or tls.key):
        text = "is given together with cert or key; give either one or the other"
        yield Contradiction("api.tls.keystore", text, ("api.tls.cert", "api.tls.key"))
    asked = tls is not None and tls.client_ca is not None
    for number, proxy in enumerate(api.trusted_proxies):
        if proxy.authenticated_by == "mtls" and not asked:
            found = (
                "= 'mtls' without api.tls.client_ca: clients would not be asked for a certificate"
            )
            path = f"api.trusted_proxies[{number}].authenticated_by"
            yield Contradiction(path, found, ("api.tls.client_ca",))


def perimeter_contradictions(api: ApiSpec) -> Iterator[Contradiction]:
    """Yield every contradiction in the trusted proxies of *api*."""
    names = [one.name for one in api.trusted_proxies]
    for number, one in enumerate(api.trusted_proxies):
        path = f"api.trusted_proxies[{number}]"
        if one.name in names[:number]:
            text = f"= '{one.name}' is there twice; give each proxy its own name"
            yield Contradiction(f"{path}.name", text)
        yield from _address(path, one)
        yield from _proof(path, one, api)
        if not one.users and not one.groups:
            text = "= [] without groups: the proxy could speak for nobody; list some users, or '*'"
            yield Contradiction(f"{path}.users", text, (f"{path}.groups",))
        if "*" in one.users and one.groups:
            found = (
                "is given, but users = ['*'] already means everybody; for the group's members "
                "only, write users: []"
            )
            yield Contradiction(f"{path}.groups", found, (f"{path}.users",))


def _address(path: str, proxy: TrustedProxy) -> Iterator[Contradiction]:
    try:
        ipaddress.ip_network(proxy.address)
    except ValueError:
        right = "use one like 10.0.0.5 or 10.0.0.0/24"
        with contextlib.suppress(ValueError):  # such as 10.0.0.5/24: an address, or its network
            one = ipaddress.ip_interface(proxy.address)
            right = f"use {one.ip} or {one.network}"
        text = f"= '{proxy.address}' is neither an address nor a network; {right}"
        yield Contradiction(f"{path}.address", text)


def _proof(path: str, proxy: TrustedProxy, api: ApiSpec) -> Iterator[Contradiction]:
    if proxy.authenticated_by == "kerberos" and api.spnego is None:
        text = "= 'kerberos' needs api.spnego"
        yield Contradiction(f"{path}.authenticated_by", text, ("api.spnego",))
    by = (f"{path}.authenticated_by",)
    if proxy.authenticated_by == "token":
        if proxy.token is None:
            text = "is missing, and authenticated_by = 'token' needs it"
            yield Contradiction(f"{path}.token", text, by)
        elif not _SOURCE.fullmatch(proxy.token):  # never the value: it may be a token
            text = "does not say where the token is; use 'file:PATH' or 'env:NAME'"
            yield Contradiction(f"{path}.token", text)
    elif proxy.token is not None:
        text = f"is given, but authenticated_by = '{proxy.authenticated_by}' does not use it"
        yield Contradiction(f"{path}.token", text, by)
