"""What `up` would do, without doing it."""

from collections.abc import Mapping
from typing import Any, cast

import attrs

from tarn import config
from tarn.cluster.authority import authority
from tarn.cluster.environment import ClusterEnvironment
from tarn.cluster.staging import examined, guessed
from tarn.cluster.stores import given, look
from tarn.domain import ClusterSpec
from tarn.interfaces import Deployer
from tarn.plain import MASK, masked, redact

__all__ = ["ask", "dry_run"]


def dry_run(
    spec: ClusterSpec,
    origins: Mapping[str, str],
    environment: ClusterEnvironment,
    deployer: Deployer,
) -> dict[str, Any]:
    """Return plain data: spec, origins, commands, environment, ask, files, findings, running.

    Starts nothing and writes nothing, so a repository that would have to be copied is not looked
    at. Secrets are masked.
    """
    plugins = environment.plugins()
    running = deployer.find(spec.name) is not None
    plan = deployer.plan(spec, guessed(spec, plugins))
    # what runs holds what it needs
    findings = () if running else deployer.check(spec)
    secrets, unread = ((), ()) if running else look(spec, environment)
    findings = (
        *findings,
        *unread,
        *authority(spec, plugins),
        *examined(spec, plugins, environment.environ),
    )
    return {
        "name": spec.name,
        "running": running,
        "spec": config.redact(config.dump(spec)),
        "origins": dict(origins),
        "commands": [[masked(word) for word in words] for words in plan.commands],
        "environment": {
            **cast(dict[str, object], redact(dict(plan.environ), free=True)),
            **dict.fromkeys(given(secrets), MASK),
        },
        "ask": ask(spec),
        "files": {what: masked(where) for what, where in plan.files.items()},
        "findings": [attrs.asdict(finding) for finding in findings],
    }


def ask(spec: ClusterSpec) -> dict[str, Any]:
    """Return what one instance asks for, how many there are at first, and what all ask for then."""
    resources, replicas = spec.instance.resources, spec.replicas
    first = replicas.min if replicas.initial is None else replicas.initial
    amounts = {
        "vcores": resources.vcores,
        "memory_mib": resources.memory_mib,
        "gpus": resources.gpus,
    }
    return {
        "instance": {**amounts, "gpu_resource": resources.gpu_resource},
        "replicas": {"initial": first, "min": replicas.min, "max": replicas.max},
        "initial": {name: amount * first for name, amount in amounts.items()},
        "max": {name: amount * replicas.max for name, amount in amounts.items()},
    }
