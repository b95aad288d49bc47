"""The cluster's directory on the Hadoop file system: taken by one, filled, and removed.

The file ``owner`` holds the application that has the name. To take over from one that is over,
``after-<its id>`` is made first, exclusively, with the new id in it: of many who saw the same dead
owner one wins. Only then ``owner`` is replaced, and only then ``after-…`` removed, so nobody who
looks at any moment sees a name without a holder.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

import attrs

from tarn.errors import NotFoundError, RefusedError
from tarn_plugins.runtime.yarn.layout import Layout
from tarn_plugins.runtime.yarn.messages import FileEntry, Files

__all__ = ["Staging"]

YOUNG_S = 60.0
"""So old an owner that YARN does not know is no longer on its way to YARN."""
_ENDED = "ended-"
_PUBLIC_MODE, _PRIVATE_MODE = 0o644, 0o600
"""A directory is made as open as its first file: so the owner's note is for everybody."""


@attrs.frozen
class Staging:
    """One cluster's directory.

    Args:
        files: The file system.
        layout: Where things lie.
        state: Application id to whether it is alive; None: YARN does not know it.
        at: Wall time now, Unix seconds. The file system's clock should not differ by a minute.
    """

    files: Files
    layout: Layout
    state: Callable[[str], bool | None]
    at: Callable[[], float]

    def take(self, name: str, application_id: str) -> None:
        """Become the owner, for *application_id*; what a dead owner left is removed.

        Raises:
            RefusedError: TARN-2103: the owner is alive, or on its way.
        """
        try:
            self.files.write(self.layout.owner, application_id.encode(), mode=_PUBLIC_MODE)
        except RefusedError:
            self._take_over(name, application_id)

    def publish(self, content: Mapping[str, bytes]) -> tuple[FileEntry, ...]:
        """Write the master's own files, readable by everybody, and return them."""
        self._fill(self.layout.public, content, _PUBLIC_MODE)
        return self.files.listing(self.layout.public)

    def keep(self, content: Mapping[str, bytes]) -> None:
        """Write copies for the owner's other machines, readable by nobody else."""
        self._fill(self.layout.private, content, _PRIVATE_MODE)

    def remove(self, application_id: str) -> None:
        """Remove the directory if this application still owns it. Idempotent."""
        try:
            holder = self._holder().id
        except (NotFoundError, _Moved):
            return
        if holder != application_id:
            return
        try:
            # From here on nobody can take it over from us while it is being removed.
            note = f"{_ENDED}{holder}".encode()
            self.files.write(self._after(holder), note, mode=_PUBLIC_MODE)
        except (RefusedError, NotFoundError):
            return  # somebody else removes it at this moment: the master that ended, or a client
        self.files.remove(self.layout.root)
        if self.layout.shelf:
            self.files.prune(self.layout.shelf)

    def _fill(self, folder: str, content: Mapping[str, bytes], mode: int) -> None:
        """Write files side by side: each of them waits for the disks of data nodes."""
        with ThreadPoolExecutor(thread_name_prefix="staging") as pool:
            written = [
                pool.submit(self.files.write, f"{folder}/{name}", data, mode=mode, replace=True)
                for name, data in content.items()
            ]
        for each in written:
            each.result()

    def _take_over(self, name: str, application_id: str) -> None:
        try:
            before = self._holder()
            alive = None if before.id.startswith(_ENDED) else self.state(before.id)
            if alive:
                raise _refused(name, f"runs already, as {before.id}")
            if alive is None and before.age_s < YOUNG_S:
                raise _refused(name, f"is being started or ended elsewhere, as {before.id}")
            self._follow(before, application_id)
        except (NotFoundError, _Moved):
            raise _refused(name, "is being started or ended by another process") from None
        self.files.remove(self.layout.public)
        self.files.remove(self.layout.private)
        self.files.write(
            self.layout.owner, application_id.encode(), mode=_PUBLIC_MODE, replace=True
        )
        for entry in self.files.listing(self.layout.root):
            if entry.path.startswith("after-"):
                self.files.remove(entry.uri)

    def _follow(self, before: "_Holder", application_id: str) -> None:
        """Become the next in the chain; ``_Moved`` where somebody was faster."""
        note = self._after(before.id)
        try:
            self.files.write(note, application_id.encode(), mode=_PUBLIC_MODE)
        except RefusedError:
            raise _Moved from None
        # The note may be a second one, after a faster process took over and removed its own: then
        # the owner is another one by now.
        if self._read(self.layout.owner) != before.owner:
            self.files.remove(note)
            raise _Moved

    def _holder(self) -> "_Holder":
        """Return who has the name: the end of the chain counts.

        A note is never changed, and the owner is looked at before and after the times were, so
        an id always comes with its own time.
        """
        owner = self._read(self.layout.owner)
        entries = {entry.path: entry for entry in self.files.listing(self.layout.root)}
        if "owner" not in entries or self._read(self.layout.owner) != owner:
            raise _Moved
        holder, entry = owner, entries["owner"]
        while (after := entries.get(f"after-{holder}")) is not None:
            holder, entry = self._read(after.uri), after
        return _Holder(holder, max(0.0, self.at() - entry.modified_ms / 1000), owner)

    def _after(self, holder: str) -> str:
        return f"{self.layout.root}/after-{holder}"

    def _read(self, uri: str) -> str:
        return self.files.read(uri).decode(errors="replace").strip()


@attrs.frozen
class _Holder:
    """Who has a name."""

    id: str
    age_s: float
    owner: str
    """What the file ``owner`` says; another id where a take-over is under way."""


class _Moved(Exception):  # noqa: N818 (a state of affairs)
    """Somebody else changes the owner at this moment."""


def _refused(name: str, what: str) -> RefusedError:
    return RefusedError(
        f"{name} {what}", code="TARN-2103", next_step=f"`tarn status -c {name}` shows it"
    )
