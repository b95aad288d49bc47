"""Deployers on a real YARN, with a stand-in for the master."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
from servers.yarn import Hadoop, java

from tarn import config
from tarn.clock import SystemClock
from tarn.domain import ClusterSpec
from tarn.domain.spec import MasterSpec
from tarn.errors import NotFoundError
from tarn.interfaces import ClientContext, Paths, Progress, Staged
from tarn.java import hadoop_classpath
from tarn.testing.context import cluster_spec
from tarn_plugins.runtime.yarn import YarnSettings
from tarn_plugins.runtime.yarn.client.deployer import YarnDeployer
from tarn_plugins.runtime.yarn.client.hadoop_child import HadoopChild, start_child
from tarn_plugins.runtime.yarn.hadoop import configuration
from tarn_plugins.runtime.yarn.hadoop.files import HadoopFiles

CHILDREN: dict[object, HadoopChild] = {}
"""By what distinguishes them: each is a JVM, which costs more than most of these tests. One that is
not asked for a minute ends by itself."""
STAGING = "/tmp/tarn-deployer-tests"
STAGED = Staged("/models", "in_place")
LAUNCH_FILES = {"spec.yaml": b"name: x\n", "staged.json": b"{}"}
_STAND_IN = Path(__file__).with_name("stand_in_master.py")


def small(name: str) -> ClusterSpec:
    """Return a spec whose master is as small as the stand-in."""
    return attrs.evolve(cluster_spec(name), master=MasterSpec(memory_mib=384, max_attempts=3))


@attrs.frozen
class DeployerHomes:
    """One YARN, seen from homes of clients."""

    hadoop: Hadoop

    def context(self, home: Path, said: list[Progress] | None = None) -> ClientContext:
        """Return what a client with this home has; of this process it has PATH and the cache."""
        environ = {"PATH": config.environ()["PATH"], **self.hadoop.environ}
        hear = (lambda _progress: None) if said is None else said.append
        # A cache of its own would get an archive of classes of its own, made for ten seconds.
        paths = Paths(home, config.paths(config.environ()).cache)
        return ClientContext(SystemClock(), environ, paths, hear)

    def deployer(
        self, home: Path, *mode: str, said: list[Progress] | None = None, **settings: Any
    ) -> "StandIn":
        """Return a deployer whose masters do *mode*; without one they listen."""
        made = YarnSettings(**{"staging": STAGING, "docker": None, **settings})
        return StandIn(made, self.context(home, said), self.classpath(), mode or ("listen",))

    def classpath(self) -> str:
        return ":".join(hadoop_classpath(self.hadoop.environ))

    def files(self) -> HadoopFiles:
        """Return HDFS, in this process."""
        java(self.hadoop.environ)
        return HadoopFiles(configuration())

    def listing(self, root: str = STAGING) -> list[str]:
        """Return what is below *root*, but for the archive of classes that later starts use."""
        try:
            found = [entry.path for entry in self.files().listing(root, deep=True)]
        except NotFoundError:
            return []
        return [path for path in found if not path.startswith(".classes/")]


class StandIn(YarnDeployer):
    """A cluster named ``doomed…`` gets a master that exits; any other the *mode*."""

    def __init__(
        self, settings: YarnSettings, context: ClientContext, classpath: str, mode: Sequence[str]
    ) -> None:
        self._classpath, self._mode = classpath, mode
        kind = (*sorted(context.environ.items()), settings.staging, settings.hadoop_home)
        kind = (*kind, settings.java_home, settings.kerberos)
        if kind not in CHILDREN:
            CHILDREN[kind] = start_child(settings, context)
        super().__init__(settings, context, CHILDREN[kind])

    def _order(self, spec: ClusterSpec, *parts: Any) -> dict[str, Any]:
        mode = ("exit", "3") if spec.name.startswith("doomed") else self._mode
        needs = (self._classpath,) if mode[0] in ("listen", "leave") else ()
        argv = [sys.executable, str(_STAND_IN), *mode, *needs]
        return {**super()._order(spec, *parts), "argv": argv}
