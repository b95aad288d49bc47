"""Deployers on a real YARN, with a stand-in for the master."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
from java_stage import java

from tarn.clock import SystemClock
from tarn.config.process import environ
from tarn.domain import ClusterSpec
from tarn.domain.spec import MasterSpec
from tarn.interfaces import ClientContext, Paths, Progress
from tarn.java import hadoop_classpath
from tarn.testing.context import cluster_spec
from tarn_plugins.runtime.yarn import Settings
from tarn_plugins.runtime.yarn.configuration import configuration
from tarn_plugins.runtime.yarn.deployer import YarnDeployer
from tarn_plugins.runtime.yarn.files import HadoopFiles

STAGING = "/tmp/tarn-deployer-tests"
_KEPT = ("PATH", "HADOOP_HOME", "HADOOP_CONF_DIR", "CLASSPATH", "JAVA_HOME", "USER", "HOME")
_STAND_IN = Path(__file__).with_name("stand_in_master.py")


def small(name: str) -> ClusterSpec:
    """Return a spec whose master is as small as the stand-in."""
    return attrs.evolve(cluster_spec(name), master=MasterSpec(memory_mib=384, max_attempts=3))


def context(home: Path, said: list[Progress] | None = None) -> ClientContext:
    kept = {name: value for name, value in environ().items() if name in _KEPT}
    hear = (lambda _progress: None) if said is None else said.append
    return ClientContext(SystemClock(), kept, Paths(home, home / "cache"), hear)


class StandIn(YarnDeployer):
    """A cluster named ``doomed…`` gets a master that exits; any other the *mode*."""

    def __init__(
        self, home: Path, *mode: str, said: list[Progress] | None = None, **settings: Any
    ) -> None:
        made = Settings(**{"staging": STAGING, **settings})
        self._mode = mode or ("listen",)
        super().__init__(made, context(home, said))

    def _order(self, spec: ClusterSpec, *parts: Any) -> dict[str, Any]:
        mode = ("exit", "3") if spec.name.startswith("doomed") else self._mode
        return {**super()._order(spec, *parts), "argv": stand_in(*mode)}


def stand_in(*mode: str) -> Sequence[str]:
    classpath = ":".join(hadoop_classpath(environ()))
    needs = (classpath,) if mode[0] in ("listen", "leave") else ()
    return [sys.executable, str(_STAND_IN), *mode, *needs]


def files() -> HadoopFiles:
    """Return HDFS, in this process."""
    java()
    return HadoopFiles(configuration())
