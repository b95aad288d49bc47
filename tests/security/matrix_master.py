"""A master as it is composed for real, its runtime and authorizer small: the table's master."""

import contextlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import attrs
from master_in_thread import Nothing, at_work, brought, running

from tarn.domain import (
    Choice,
    Principal,
    ProxyRule,
    Readiness,
    Verdict,
)
from tarn.domain.access import MODEL_ACTIONS, VIEW
from tarn.domain.spec import SpnegoSpec, TlsSpec, TrustedProxy
from tarn.hookspecs import Factory, RuntimeFactory, hookimpl
from tarn.interfaces import Authorizer, MasterContext
from tarn.testing.context import cluster_spec
from tarn.testing.fakes import FakeRuntime

API_TOKEN = "the-api-token-of-the-cluster"
LB_TOKEN = "the-own-token-of-one-load-balancer"
PROXY, KNOX, RM = "127.0.0.2", "127.0.0.3", "127.0.0.4"
"""From where the load balancer, Knox' proxy user and the ResourceManager's proxy connect."""

PROXIES = (
    TrustedProxy("lb1", PROXY, "token", token="env:LB", users=("*",)),
    TrustedProxy("knox", f"{KNOX}/32", "kerberos", users=("alice",), groups=("analysts",)),
)

GATE = TrustedProxy("gate", PROXY, "mtls", users=("alice",))


@attrs.frozen
class Alices:
    """alice may look at the fleet, and do all with the model echo; nobody else may anything."""

    asked: list[Principal] = attrs.field(factory=list)

    def check(self, principal: Principal, action: str, model: str) -> Verdict:
        self.asked.append(principal)
        hers = principal.user == "alice" and principal.via != "none"
        may = action == VIEW or (action in MODEL_ACTIONS and model == "echo")
        return Verdict(allowed=hers and may, reason="of the table")

    def check_each(
        self, principal: Principal, action: str, models: Sequence[str]
    ) -> tuple[Verdict, ...]:
        return tuple(self.check(principal, action, model) for model in models)

    def ready(self) -> Readiness:
        return Readiness(ready=True)

    def close(self) -> None:
        """Nothing is open."""


class LivingInstances(FakeRuntime):
    """A runtime that has just heard from whoever grants containers."""

    def heard_s(self) -> float:
        return time.monotonic()


class PlayedPlugins:
    """A plugin: the runtime ``stage`` and the authorizer ``alices``."""

    def __init__(self) -> None:
        self.runtime = LivingInstances()
        self.authorizer = Alices()

    @hookimpl
    def tarn_authorizers(self) -> Mapping[str, Factory[Authorizer]]:
        def made(_settings: Nothing, _context: MasterContext) -> Authorizer:
            return self.authorizer

        return {"alices": Factory(Nothing, made, "the table's")}

    @hookimpl
    def tarn_runtimes(self) -> Mapping[str, RuntimeFactory]:
        rule = ProxyRule(frozenset({RM}), "the-owner", proves=True)
        made = running(self.runtime, proxy=lambda _settings, _directory, _environ: rule)
        return {"stage": made}


@contextlib.contextmanager
def matrix_master(
    directory: Path, keytab: Path | None, secured: Mapping[str, bytes] | None = None
) -> Iterator[tuple[str, Alices]]:
    """Run the master in a thread; yield its URL, and what its authorizer was asked.

    With *secured*, its TLS files, it takes certificates of clients; without *keytab* no tickets.
    """
    stage = PlayedPlugins()
    _files(directory, keytab, secured or {})
    with at_work(directory, stage, stage.runtime):
        yield stage.runtime.api_url, stage.authorizer


def _files(directory: Path, keytab: Path | None, secured: Mapping[str, bytes]) -> None:
    spec = cluster_spec()
    proxies = (*PROXIES[: 1 if keytab is None else 2], *([GATE] if secured else []))
    spec = attrs.evolve(
        spec,
        models=attrs.evolve(spec.models, repository="/models", serve=("echo",)),
        triton=attrs.evolve(spec.triton, restricted=()),
        runtime=Choice("stage"),
        authorizer=Choice("alices"),
        api=attrs.evolve(
            spec.api,
            spnego=None if keytab is None else SpnegoSpec(str(keytab)),
            tls=TlsSpec("/tls.pem", client_ca="/ca.pem") if secured else None,
            trusted_proxies=proxies,
            rate_limit=100_000,
        ),
        replicas=attrs.evolve(spec.replicas, min=0),
    )
    brought(directory, spec, API_TOKEN)
    files = {
        "proxy_tokens.json": json.dumps({"lb1": LB_TOKEN}).encode(),
        **({} if keytab is None else {"spnego.keytab": keytab.read_bytes()}),
        **secured,
    }
    for name, data in files.items():
        (directory / name).write_bytes(data)
