"""The environment of a client process: variables, clock, plugins, and the API client."""

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

__all__ = ["ClusterEnvironment", "current_environment", "unheard"]


def _rest(seconds: float) -> None:
    threading.Event().wait(seconds)


@attrs.frozen
class ClusterEnvironment:
    """Everything that a `Cluster` takes from outside; tests pass their own."""

    environ: Mapping[str, str] = attrs.field(repr=False)
    plugins: Callable[[], Plugins] = load
    """Returns the plugins; called each time that they are needed."""
    api: Callable[[str, str | None, Trust], MasterApi] = lambda url, api_token, trust: MasterApi(
        url, api_token, trust=trust
    )
    """Makes a client of the API at a URL, with an api token and the authorities to trust."""
    clock: Clock = attrs.field(factory=SystemClock)
    rest: Callable[[float], None] = _rest
    """Waits for a number of seconds; an interrupt ends the wait."""
    api_token: Callable[[], str | None] | None = None
    """Returns the api token to use in place of the kept one; called at each connection."""

    @property
    def paths(self) -> Paths:
        """Where TARN keeps its files.

        Raises:
            RefusedError: Another user owns one of these folders, or may write to it (TARN-2104).
        """
        found, home = config.paths(self.environ), self.environ.get("HOME")
        for folder in (found.home / "clusters", found.cache):
            refuse_shared(folder, Path(home) if home else None)
        return found

    def context(self, progress: Callable[[Progress], None] | None = None) -> ClientContext:
        """Return the context that providers get."""
        return ClientContext(self.clock, self.environ, self.paths, progress or unheard)

    def deployer(
        self,
        use: str,
        options: Mapping[str, object],
        progress: Callable[[Progress], None] | None = None,
    ) -> Deployer:
        """Return the deployer of the runtime *use* with its options.

        Raises:
            ConfigErrors: There is no such runtime, or it has no such options.
            TarnError: Something that the runtime needs is missing on this machine.
        """
        offered = self.plugins()
        factory = offered.choose("runtime", use, "runtime.use")
        settings = offered.settings(factory, options, "runtime.options")
        made: Deployer = factory.deployer(settings, self.context(progress))
        return made


def unheard(_progress: Progress) -> None:
    """Ignore the progress."""


def current_environment() -> ClusterEnvironment:
    """Return the environment of this process."""
    environ = config.environ()
    disabled = environ.get("TARN_DISABLED_PLUGINS", "")
    return ClusterEnvironment(environ, functools.cache(lambda: load(disabled=disabled)))
