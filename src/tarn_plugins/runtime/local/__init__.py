"""Real Tritons on this machine: the runtime ``local``.

A keeper starts the master and starts it again when it ends; the master starts each Triton in a
session of its own, so every Triton outlives the master, and the master every client.
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
    """The local runtime has no settings of its own; see ``triton`` and ``instance``."""


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
    from tarn_plugins.runtime.local.epoch import claim  # noqa: PLC0415

    return claim(settings, directory, environ)


@hookimpl
def tarn_runtimes() -> Mapping[str, RuntimeFactory]:
    """Offer ``local``."""
    return {
        "local": RuntimeFactory(
            settings=LocalSettings,
            deployer=_deployer,
            runtime=_runtime,
            state_store=_state_store,
            epoch=_epoch,
            capabilities=RuntimeCapabilities(
                keeps_instances_on_master_loss=True, tells_memory=True, gpus=True
            ),
            summary="Triton as processes of this machine, no container needed",
            requires=("cattrs",),
            extra="local",
        )
    }


@hookimpl
def tarn_doctor_checks(spec: ClusterSpec, context: ClientContext) -> Iterable[Check]:
    """Offer to look at this machine, where instances shall run on it."""
    if spec.runtime.use != "local":
        return ()
    from tarn_plugins.runtime.local.examination import offered  # noqa: PLC0415 (only when asked)

    return offered(spec, context)
