"""The end of an instance's log, as the NodeManager of its container has it."""

from collections.abc import Callable

import attrs

from tarn.errors import NotFoundError, ProviderError
from tarn.interfaces import LogTail
from tarn_plugins.runtime.yarn.log_text import contents
from tarn_plugins.runtime.yarn.messages import AllocatedContainer

__all__ = ["NodeLogs"]

_FILE = "triton.stderr"
_BYTES_A_LINE = 256
_LEAST, _MOST = 64 * 1024, 1024 * 1024


@attrs.frozen
class NodeLogs:
    """Asks the web servers of NodeManagers. Any thread; blocks for five seconds at most."""

    get: Callable[[str], bytes]
    """Return what is at a URL, or raise ``ProviderError``."""
    scheme: str = "http"

    def tail(self, grant: AllocatedContainer, lines: int) -> LogTail:
        """Return the last *lines* lines that the program in a container wrote to standard error.

        Raises:
            NotFoundError: Its node has no such log (any more).
            ProviderError: The node does not answer, or does not let this master read it.
        """
        found = self._end(grant, _FILE, lines)
        if len(found.lines) < lines and not found.truncated:
            try:
                before = self._end(grant, f"{_FILE}.1", lines - len(found.lines))
            except NotFoundError:
                return found  # nothing was moved aside, or YARN has collected it already
            return LogTail((*before.lines, *found.lines), truncated=before.truncated)
        return found

    def _end(self, grant: AllocatedContainer, file: str, lines: int) -> LogTail:
        """Return the last *lines* lines of one file, or as many as a mebibyte holds."""
        most = max(_LEAST, min(_MOST, lines * _BYTES_A_LINE))
        found = self._ask(grant, file, most)
        if found.truncated and len(found.lines) < lines and most < _MOST:
            found = self._ask(grant, file, _MOST)
        return LogTail(
            found.lines[max(0, len(found.lines) - lines) :],
            truncated=found.truncated or len(found.lines) > lines,
        )

    def _ask(self, grant: AllocatedContainer, file: str, most: int) -> LogTail:
        path = f"ws/v1/node/containers/{grant.container_id}/logs/{file}"
        try:
            printed = self.get(f"{self.scheme}://{grant.node_http}/{path}?size=-{most}")
        except ProviderError as error:
            if error.retry_after_s is None and "404" in error.found:
                raise _absent(grant) from error
            raise ProviderError(
                "yarn",
                f"the node does not show the log: {error.found}",
                code="TARN-3811",
                where=f"{grant.container_id} on {grant.node}",
                retry_after_s=error.retry_after_s,
                next_step="`tarn logs INSTANCE` asks with your own ticket, and reads what YARN "
                "has collected",
            ) from error
        texts = [(text, len(text) >= most) for name, text in contents(printed, most) if text]
        if not texts:
            return LogTail(())
        text, cut = texts[0]
        lines = text.decode(errors="replace").split("\n")
        if not lines[-1]:
            lines.pop()
        return LogTail(tuple(lines[1:] if cut and len(lines) > 1 else lines), truncated=cut)


def _absent(grant: AllocatedContainer) -> NotFoundError:
    return NotFoundError(
        f"its node has no log of it: {grant.container_id} on {grant.node}",
        next_step="`tarn logs INSTANCE` reads what YARN has collected",
    )
