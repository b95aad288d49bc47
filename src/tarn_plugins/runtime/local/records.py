"""One file for each instance: written before its process exists, removed after the last report."""

import json
from pathlib import Path

import attrs
from cattrs.errors import BaseValidationError
from cattrs.preconf.json import make_converter

from tarn.descriptors import shortage
from tarn.domain import Endpoint
from tarn_plugins.runtime.local.atomic import replace_file

__all__ = ["ProcessRecord", "Records"]

_converter = make_converter()


@attrs.frozen
class ProcessRecord:
    """What a later master must know to take an instance over."""

    instance_id: str
    spec_hash: str
    endpoint: Endpoint
    shm_prefix: str
    exit_timeout_s: float
    started_at: float
    """Wall time, Unix seconds."""
    gpus: tuple[str, ...] = ()
    """UUIDs of the GPUs that are its own."""
    pid: int | None = None
    """None while its process is only intended."""
    start: int | None = None
    """Clock ticks since boot at which the process started."""
    stop_at: float | None = None
    """Wall time at which its stop was asked; None: it should run."""


@attrs.frozen
class Records:
    """The folder ``instances`` of a cluster's directory."""

    folder: Path

    def write(self, record: ProcessRecord) -> None:
        """Keep *record*, in place of an older one of the same instance; fsynced."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        data = json.dumps(_converter.unstructure(record)).encode()
        replace_file(self._path(record.instance_id), data)

    def remove(self, instance_id: str) -> None:
        """Forget an instance. Idempotent."""
        self._path(instance_id).unlink(missing_ok=True)

    def read(self) -> tuple[tuple[ProcessRecord, ...], tuple[str, ...]]:
        """Return the records that can be read, by id, and the names of files that cannot.

        Raises:
            OSError: This process lacks what reading takes: no file is taken for a damaged one.
        """
        records: list[ProcessRecord] = []
        damaged: list[str] = []
        for path in sorted(self.folder.glob("*.json")):
            try:
                records.append(_converter.structure(json.loads(path.read_bytes()), ProcessRecord))
            except (OSError, ValueError, RecursionError, BaseValidationError) as error:
                if shortage(error):
                    raise
                damaged.append(path.name)
        return tuple(records), tuple(damaged)

    def _path(self, instance_id: str) -> Path:
        return self.folder / f"{instance_id}.json"
