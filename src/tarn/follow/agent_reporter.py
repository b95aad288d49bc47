"""What an agent says to people: a line at each change, and nothing twice."""

from collections.abc import Callable, Mapping
from typing import Any

from tarn.domain import Applied, DiscoveryView
from tarn.errors import NotAuthorizedError, ProviderError, TimedOutError, UnreachableError
from tarn.follow.view_applier import ApplyFailure
from tarn.follow.views import REFUSED_EVERY_S

__all__ = ["AgentReporter"]

SILENT_TIMES = 3
"""A word that did not arrive so often in a row is worth a line, where the view still arrives."""


class AgentReporter:
    """Turns the state of an agent into lines. One thread.

    Args:
        say: Gets each line.
        cluster: Its name.
    """

    def __init__(self, say: Callable[[str], None], cluster: str) -> None:
        self._say, self._cluster = say, cluster
        self._lost = ""
        self._failed: ApplyFailure | None = None
        self._unheard = 0
        self._mute = False
        self._short = ""
        self._done: DiscoveryView | None = None

    def met(self, name: str, status: Mapping[str, Any]) -> None:
        """Hear, before all else, what the master says; *name* is the agent's."""
        awaited = [one["name"] for one in status.get("followers", ()) if one.get("required")]
        if awaited and name not in awaited:
            self._say(
                f"drains of {self._cluster} wait for {', '.join(awaited)}, but not for this "
                f"agent, which is called {name}. If they should wait for it, give it one of "
                f"those names with --name, or add {name} to `followers` of a discovery with "
                "`required: true`"
            )

    def way(self, lost: Exception | None) -> None:
        """Hear whether the view arrives; *lost* says why not."""
        refused = isinstance(lost, NotAuthorizedError)
        kind = "refused" if refused else "lost" if lost is not None else ""
        if kind == self._lost:
            return
        self._lost = kind
        if lost is None:
            self._say(f"the master of {self._cluster} answers again")
        elif refused:
            self._say(
                f"access to the master of {self._cluster} was denied: {lost}. Keeping the last "
                f"view; retrying every {REFUSED_EVERY_S:g} s"
            )
        else:
            why = str(lost) or type(lost).__name__
            self._say(f"no master of {self._cluster} answers: {why}. Keeping the last view")

    def failure(self, failure: ApplyFailure | None) -> None:
        """Hear why the newest view is not applied."""
        if failure is not None and failure != self._failed:
            revision = failure.view.revision
            self._say(f"revision {revision} of {self._cluster} is not applied: {failure.why}")
        self._failed = failure

    def unheard(self, error: Exception) -> None:
        """Hear that a word did not arrive; one that is refused is said at once."""
        self._unheard += 1
        quiet = isinstance(error, (UnreachableError, TimedOutError, ProviderError, OSError))
        if self._mute or (quiet and self._unheard < SILENT_TIMES):
            return
        self._mute = True
        self._say(f"the master of {self._cluster} rejects the acknowledgement: {error}")

    def heard(self, view: DiscoveryView | None, word: Applied) -> None:
        """Hear that *word* arrived; *view* is what was applied last."""
        self._unheard, self._mute = 0, False
        self._shortcoming(word)
        if view is None or word.error or (view.epoch, view.revision) != (word.epoch, word.revision):
            return
        before, self._done = self._done, view
        if before is None or view.epoch != before.epoch:
            self._say(f"follows the master {view.epoch} of {self._cluster}")
        if before is None or (view.epoch, view.revision) != (before.epoch, before.revision):
            self._say(f"revision {view.revision} of {self._cluster}: {_change(before, view)}")

    def _shortcoming(self, word: Applied) -> None:
        """Say what the discovery itself complains of; what failed was said before."""
        failed = self._failed is not None and self._failed.why == word.error
        if word.error and not failed and word.error != self._short:
            self._say(
                f"revision {word.revision} of {self._cluster} is applied only in part: {word.error}"
            )
        elif self._short and not word.error:
            self._say(f"revision {word.revision} of {self._cluster} is now applied in full")
        self._short = "" if failed else word.error


def _change(before: DiscoveryView | None, view: DiscoveryView) -> str:
    """Return the size of *view*, and what differs from *before*."""
    count = len(view.members)
    servers = "1 server" if count == 1 else f"{count} servers"
    text = f"{servers}, acknowledged"
    if before is not None:
        old, new = set(before.members), set(view.members)
        left = old - new if view.complete else set()
        text = f"{servers} (+{len(new - old)} -{len(left)}), acknowledged"
    return text if view.complete else f"{text}; it is not complete, so nothing is removed"
