"""What a client reads on its machine for a master: keys, keytabs, secrets, test requests."""

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from tarn.cluster.environment import ClusterEnvironment
from tarn.cluster.server_certificate import ends_soon, server_certificate
from tarn.cluster.stores import carried, held
from tarn.cluster.test_requests import carried_tests
from tarn.cluster.trust_store import trust_store_files
from tarn.domain import ClusterSpec, Secret
from tarn.domain.given_secrets import StoredSecret
from tarn.errors import ConfigError, ConfigErrors
from tarn.hookspecs import RuntimeFactory
from tarn.http.tls import LOOPBACK
from tarn.interfaces import Progress

__all__ = ["uploads"]

Files = Mapping[str, bytes]
Secrets = Mapping[str, Secret]


def uploads(
    spec: ClusterSpec,
    environment: ClusterEnvironment,
    hear: Callable[[Progress], None] | None = None,
) -> Files:
    """Return name (of `tarn.domain.master_files`) to content of all that *spec* asks for.

    Raises:
        ConfigErrors: What cannot be read or does not fit together, everything at once.
    """
    found: tuple[StoredSecret, ...] = ()
    errors = list[ConfigError]()
    try:
        found = held(spec, environment, hear)
    except ConfigErrors as unread:
        errors += unread.errors
    files = dict(carried(found))
    secrets = {one.name: one.value for one in found}
    for part in _PARTS:
        try:
            files.update(part(spec, environment, secrets))
        except ConfigErrors as wrong:
            errors += wrong.errors
    if errors:
        raise ConfigErrors(errors)
    if hear is not None and (soon := ends_soon(files, environment.clock.at())):
        hear(Progress("preflight", f"note: api.tls: {soon}"))
    return files


def _trust_store(spec: ClusterSpec, environment: ClusterEnvironment, _secrets: Secrets) -> Files:
    elsewhere = _runtime(spec, environment).capabilities.remote
    gssapi = elsewhere or importlib.util.find_spec("gssapi") is not None
    return trust_store_files(spec, environment.environ, gssapi=gssapi)


def _tls(spec: ClusterSpec, environment: ClusterEnvironment, secrets: Secrets) -> Files:
    if spec.api.tls is None:
        return {}
    hosts = _listens_at(spec, environment)
    return server_certificate(spec.api.tls, secrets, hosts, environment.clock.at())


def _runtime(spec: ClusterSpec, environment: ClusterEnvironment) -> RuntimeFactory:
    chosen = environment.plugins().choose("runtime", spec.runtime.use, "runtime.use")
    return cast("RuntimeFactory", chosen)


def _listens_at(spec: ClusterSpec, environment: ClusterEnvironment) -> Sequence[str]:
    """Return where the master will listen; nobody knows, where it runs on other machines."""
    factory = _runtime(spec, environment)
    if factory.capabilities.remote:
        return ()
    host = factory.host(environment.environ)
    return LOOPBACK if host in LOOPBACK else (host,)


def _tests(spec: ClusterSpec, _environment: ClusterEnvironment, _secrets: Secrets) -> Files:
    return carried_tests(spec)


_PARTS = (_trust_store, _tls, _tests)
"""Each may use the secrets: the password of a keystore is one of them."""
