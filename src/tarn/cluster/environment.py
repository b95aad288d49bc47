"""What a client process stands in: environment, clock, plugins, and how a master is reached."""

import functools
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import attrs

from tarn import config
from tarn.clock import SystemClock
from tarn.follow import MasterApi, Trust
from tarn.interfaces import ClientContext, Clock, Deployer, Paths, Progress
from tarn.plugins import Plugins, load
from tarn.triton.folders import refuse_shared

__all__ = ["ClusterEnvironment", "current_environment"]


def _rest(seconds: float) -> None:
    threading.Event().wait(seconds)


def _api(url: str, api_token: str | None, trust: Trust) -> MasterApi:
    return MasterApi(url, api_token, trust=trust)


@attrs.frozen
class ClusterEnvironment:
    """Everything that a `Cluster` takes from outside, so that tests can bring their own."""

    environ: Mapping[str, str] = attrs.field(repr=False)
    plugins: Callable[[], Plugins] = load
    """Loads the plugins; called as often as they are needed."""
    api: Callable[[str, str | None, Trust], MasterApi] = _api
    """Makes a client of the API at a URL, with an api token, and by what its master is known."""
    clock: Clock = attrs.field(factory=SystemClock)
    rest: Callable[[float], None] = _rest
    """Waits so many seconds between two looks; an interrupt ends it."""
    api_token: Callable[[], str | None] | None = None
    """Gives the api token in place of what is kept with a cluster; asked at each connection."""

    @property
    def paths(self) -> Paths:
        """Where TARN keeps its files.

        Raises:
            RefusedError: Others own one of these folders, or may write to it (code TARN-2104).
        """
        found, home = config.paths(self.environ), self.environ.get("HOME")
        for folder in (found.home / "clusters", found.cache):
            refuse_shared(folder, Path(home) if home else None)
        return found

    def context(self, progress: Callable[[Progress], None] | None = None) -> ClientContext:
        """Return what providers get."""
        return ClientContext(self.clock, self.environ, self.paths, progress or _unheard)

    def deployer(
        self,
        use: str,
        options: Mapping[str, object],
        progress: Callable[[Progress], None] | None = None,
    ) -> Deployer:
        """Return the client side of the runtime *use* with its options.

        Raises:
            ConfigErrors: There is no such runtime, or it has no such options.
            TarnError: It lacks something on this machine.
        """
        offered = self.plugins()
        factory = offered.choose("runtime", use, "runtime.use")
        settings = offered.settings(factory, options, "runtime.options")
        made: Deployer = factory.deployer(settings, self.context(progress))
        return made


def _unheard(_progress: Progress) -> None:
    """Nobody listens."""


def current_environment() -> ClusterEnvironment:
    """Return the surroundings of this process."""
    environ = config.environ()
    disabled = environ.get("TARN_DISABLED_PLUGINS", "")
    return ClusterEnvironment(environ, functools.cache(lambda: load(disabled=disabled)))
