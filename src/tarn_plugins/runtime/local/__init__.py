"""Real Tritons on this machine: the runtime ``local``.

A keeper starts the master, and restarts it when it ends. The master starts each Triton in a
separate session, so a Triton outlives the master, and the master outlives every client.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs

from tarn.domain import ClusterSpec, Epoch
from tarn.hookspecs import RuntimeFactory, hookimpl
from tarn.interfaces import (
    Check,
    ClientContext,
    Deployer,
    MasterContext,
    Runtime,
    RuntimeCapabilities,
    StateStore,
)

__all__ = ["LocalSettings", "tarn_doctor_checks", "tarn_runtimes"]


@attrs.frozen
class LocalSettings:
    """The local runtime has no settings; see ``triton`` and ``instance``."""


# Each part is imported when it is made: a client never loads what only a master needs.


def _deployer(_settings: LocalSettings, context: ClientContext) -> Deployer:
    from tarn_plugins.runtime.local.deployer import LocalDeployer  # noqa: PLC0415

    return LocalDeployer(context)


def _runtime(_settings: LocalSettings, context: MasterContext) -> Runtime:
    from tarn_plugins.runtime.local.runtime import LocalRuntime  # noqa: PLC0415

    return LocalRuntime(context)


def _state_store(_settings: LocalSettings, context: MasterContext) -> StateStore:
    from tarn_plugins.runtime.local.state import FileStateStore  # noqa: PLC0415

    return FileStateStore(context.directory)


def _epoch(settings: Any, directory: Path, environ: Mapping[str, str]) -> Epoch:
    from tarn_plugins.runtime.local.state import claim_epoch  # noqa: PLC0415

    return claim_epoch(settings, directory, environ)


@hookimpl
def tarn_runtimes() -> Mapping[str, RuntimeFactory]:
    """Offer the runtime ``local``."""
    return {
        "local": RuntimeFactory(
            settings=LocalSettings,
            deployer=_deployer,
            runtime=_runtime,
            state_store=_state_store,
            epoch=_epoch,
            capabilities=RuntimeCapabilities(tells_memory=True, gpus=True),
            summary="Triton as processes of this machine, no container needed",
            extra="local",
        )
    }


@hookimpl
def tarn_doctor_checks(spec: ClusterSpec, context: ClientContext) -> Iterable[Check]:
    """Offer checks of this machine when the spec runs instances on it."""
    if spec.runtime.use != "local":
        return ()
    from tarn_plugins.runtime.local.checks import offered  # noqa: PLC0415 (only when asked)

    return offered(spec, context)
