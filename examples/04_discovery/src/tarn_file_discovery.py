"""Publish who may get traffic in a JSON file, for a program that reads files."""

import json
from collections.abc import Mapping
from pathlib import Path

import attrs

from tarn.domain import Applied, DiscoveryView, Epoch
from tarn.errors import DiscoveryError, Superseded
from tarn.hookspecs import Factory, hookimpl
from tarn.interfaces import Clock, Discovery, MasterContext


@attrs.frozen
class FileSettings:
    """What stands under ``discovery[].options``."""

    path: Path
    """The file; its folder must exist, on the master's machine."""


@attrs.define
class FileDiscovery:
    """Keeps the file like the view: ``{"epoch": …, "instances": {id: endpoint}}``."""

    path: Path
    clock: Clock
    last: Applied | None = None

    def reach(self, within_s: float) -> None:
        """Make sure that the file can be written; there is nothing to wait for."""
        if not self.path.parent.is_dir():
            raise DiscoveryError("file", f"the folder of {self.path} does not exist")

    def sync(self, view: DiscoveryView) -> None:
        """Publish *view*: a complete one is all there is, an incomplete one only adds."""
        try:
            old = json.loads(self.path.read_text()) if self.path.exists() else {}
            if old and view.epoch < Epoch.parse(old["epoch"]):
                raise Superseded(str(view.epoch), old["epoch"])
            instances = {} if view.complete else dict(old.get("instances", {}))
            instances |= {one.instance_id: attrs.asdict(one.endpoint) for one in view.members}
            new = self.path.with_suffix(".new")  # replaced at once: nobody reads half a file
            new.write_text(json.dumps({"epoch": str(view.epoch), "instances": instances}))
            new.replace(self.path)
        except (OSError, ValueError) as error:  # it is tried again
            raise DiscoveryError("file", f"{self.path} cannot be used: {error}") from error
        self.last = Applied("file", view.epoch, view.revision, self.clock.at())

    def applied(self) -> Applied | None:
        """Return what was published last, so that a drain may go on."""
        return self.last

    def close(self, *, withdraw: bool) -> None:
        """Leave the file as it is for the next master; with *withdraw* there is none."""
        if withdraw:
            self.path.unlink(missing_ok=True)


def create(settings: FileSettings, context: MasterContext) -> Discovery:
    """Make the discovery: called once in a master, and only where the spec chooses it."""
    return FileDiscovery(settings.path, context.clock)


FACTORY: Factory[Discovery] = Factory(FileSettings, create, "who may get traffic, in a JSON file")


@hookimpl
def tarn_discoveries() -> Mapping[str, Factory[Discovery]]:
    """Offer ``discovery: [{use: file, options: {path: …}}]``."""
    return {"file": FACTORY}
