"""The YARN runtime and its state store keep the promises of their Protocols, over a fake YARN."""

import json
from collections.abc import Mapping
from pathlib import Path

import attrs
import fake_yarn
from fake_yarn import FakeYarn

from tarn.domain import Epoch
from tarn.hookspecs import RuntimeFactory
from tarn.interfaces import MasterContext, Runtime
from tarn.testing.context import master_context
from tarn.testing.contracts import RuntimeContract, StateStoreContract
from tarn_plugins.runtime.yarn import YarnSettings, tarn_runtimes
from tarn_plugins.runtime.yarn.master.runtime import YarnRuntime
from tarn_plugins.runtime.yarn.master.state import HadoopStateStore
from tarn_plugins.runtime.yarn.messages import Submitted

OFFERED = tarn_runtimes()["yarn"]


class FakeYarns:
    """A YARN for each cluster's directory."""

    def __init__(self, placement: str = "scheduling") -> None:
        self.yarns: dict[Path, FakeYarn] = {}
        self.submitted = Submitted(fake_yarn.STAGING, "python3", placement, "for the test")

    def of(self, directory: Path) -> FakeYarn:
        plain = self.submitted.placement == "plain"
        return self.yarns.setdefault(directory, FakeYarn(plain=plain))

    def runtime(self, settings: YarnSettings, context: MasterContext) -> Runtime:
        yarn = self.of(context.directory)
        yarn.broken = {"bbbbbbbbbbbb"}
        services = yarn.services(context.epoch.attempt)
        return YarnRuntime(context, settings, self.submitted, services)

    def state_store(self, _settings: YarnSettings, context: MasterContext) -> HadoopStateStore:
        return HadoopStateStore(self.of(context.directory).files, fake_yarn.PRIVATE)

    def epoch(self, _settings: YarnSettings, directory: Path, _environ: Mapping[str, str]) -> Epoch:
        return Epoch(1_700_000_000_000, self.of(directory).claim())

    def factory(self) -> RuntimeFactory:
        """Return what is offered, its doors to YARN replaced."""
        return attrs.evolve(
            OFFERED, runtime=self.runtime, state_store=self.state_store, epoch=self.epoch
        )


class TestYarn(RuntimeContract):
    """With scheduling requests."""

    offered = OFFERED
    settings = {"heartbeat_s": 0.02}
    placement = "scheduling"

    def setup_method(self) -> None:
        self.yarns = FakeYarns(self.placement)
        self.factory = self.yarns.factory()

    def teardown_method(self) -> None:
        for yarn in self.yarns.yarns.values():
            assert yarn.violations == []
            assert yarn.surplus() == []


class TestYarnPlain(TestYarn):
    """Where YARN takes no constraints."""

    placement = "plain"


class TestYarnState(StateStoreContract):
    """Files of a Hadoop file system."""

    offered = OFFERED

    def setup_method(self) -> None:
        self.yarns = FakeYarns()
        self.factory = self.yarns.factory()

    def damage(self, tmp_path: Path, newest: Path | None) -> None:
        content, uri = self._newest(tmp_path)
        content[uri] = content[uri][: len(content[uri]) // 2]

    def age(self, tmp_path: Path, newest: Path | None) -> None:
        content, uri = self._newest(tmp_path)
        content[uri] = json.dumps({**json.loads(content[uri]), "schema": 1_000}).encode()

    def _newest(self, tmp_path: Path) -> tuple[dict[str, bytes], str]:
        content = self.yarns.of(master_context(tmp_path).directory).files.content
        found = [uri for uri in content if uri.startswith(f"{fake_yarn.PRIVATE}/state-")]
        return content, max(
            found, key=lambda u: [int(n) for n in u[:-5].split("state-")[1].split("-")]
        )
