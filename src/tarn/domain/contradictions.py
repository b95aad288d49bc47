"""What in a spec cannot be meant together, although each part by itself could be. Pure."""

from collections.abc import Iterator

from tarn.domain.spec import (
    ApiSpec,
    ClusterSpec,
    InstanceSpec,
    ReplicasSpec,
    TlsSpec,
    TritonSpec,
)

__all__ = ["problems"]


def problems(spec: ClusterSpec) -> Iterator[tuple[str, str]]:
    """Yield (path, what contradicts what) for every contradiction between parts of *spec*."""
    yield from _size_problems(spec.replicas)
    yield from _instance_problems(spec.instance)
    yield from _port_problems(spec.triton)
    if spec.api.tls is not None:
        yield from _tls_problems(spec.api.tls)
    yield from _proxy_problems(spec.api)
    if spec.update.surge == 0 and spec.update.max_unavailable == 0:
        yield "update.surge", "= 0 with update.max_unavailable = 0: no update could ever begin"


def _size_problems(replicas: ReplicasSpec) -> Iterator[tuple[str, str]]:
    low, high, initial = replicas.min, replicas.max, replicas.initial
    if low > high:
        found = f"= {high} is below replicas.min = {low}; raise the one or lower the other"
        yield "replicas.max", found
    elif initial is not None and not low <= initial <= high:
        found = f"= {initial} is outside replicas.min = {low} and replicas.max = {high}"
        yield "replicas.initial", found


def _instance_problems(instance: InstanceSpec) -> Iterator[tuple[str, str]]:
    unready_s, replace_s = instance.unready_after_s, instance.replace_after_s
    if replace_s < unready_s:
        found = f"= {replace_s:g}s is below instance.unready_after = {unready_s:g}s"
        yield "instance.replace_after", found
    ranks, gpus = instance.parallelism.ranks, instance.resources.gpus
    if ranks > 1 and gpus not in (0, ranks):
        found = f"= {gpus}, but parallelism.tensor x pipeline = {ranks}; they must be equal"
        yield "instance.resources.gpus", found


def _tls_problems(tls: TlsSpec) -> Iterator[tuple[str, str]]:
    if tls.keystore is None and tls.cert is None:
        yield "api.tls", "names no certificate; give cert and key, or keystore"
    elif tls.keystore is not None and (tls.cert or tls.key):
        yield "api.tls.keystore", "is given together with cert or key; give either one or the other"


def _proxy_problems(api: ApiSpec) -> Iterator[tuple[str, str]]:
    asked = api.tls is not None and api.tls.client_ca is not None
    for number, proxy in enumerate(api.trusted_proxies):
        if proxy.authenticated_by == "mtls" and not asked:
            found = (
                "= 'mtls' without api.tls.client_ca: clients would not be asked for a certificate"
            )
            yield f"api.trusted_proxies[{number}].authenticated_by", found


def _port_problems(triton: TritonSpec) -> Iterator[tuple[str, str]]:
    taken: dict[int, str] = {}
    for key in ("http_port", "grpc_port", "metrics_port"):
        port = getattr(triton, key)
        if port and port in taken:
            yield f"triton.{key}", f"= {port} is also triton.{taken[port]}; give each its own port"
        elif port:
            taken[port] = key
