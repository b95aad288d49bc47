"""The cluster's directory on Hadoop: its layout, its owner, its content, its removal.

::

    <staging>/<name>/owner                    0644  the application's id; made exclusively
    <staging>/<name>/public/                  0755  the master's own files, free of secrets
    <staging>/<name>/private/                 0700
              spec.yaml staged.json api_token yarn.json   copies for the owner's other machines
              launches/<record>               0600  argv, environment and secrets of an instance
              state-<attempt>-<n>.json        0600
              kept-<name>-<attempt>           0600

The file ``owner`` contains the id of the application that has the name. To take over from one that
has ended, a client first creates ``after-<its id>``, exclusively, with the new id: of several that
saw the same dead owner, one succeeds. It then replaces ``owner``, and removes ``after-…`` last, so
the name has a holder at every moment.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

import attrs

from tarn.errors import NotFoundError, RefusedError
from tarn.plain.master_files import API_TOKEN, SPEC, TLS_CA
from tarn_plugins.runtime.yarn.messages import FileEntry, Files

__all__ = ["FETCHED", "HOME", "Layout", "Staging"]

# The default directory of all clusters, in the user's home directory.
HOME = ".tarn"

# Files that another machine of the owner fetches from HDFS. All other private files of a master
# travel only in the credentials of the submission.
FETCHED = (API_TOKEN, SPEC, TLS_CA)
# An owner that YARN does not know may still be submitting until its file is this old.
YOUNG_S = 60.0
_ENDED = "ended-"
# A directory gets the mode of its first file, ``owner``, so everybody may read that.
_PUBLIC_MODE, _PRIVATE_MODE = 0o644, 0o600


@attrs.frozen
class Layout:
    """The directory of one cluster."""

    root: str
    """``<staging>/<name>``, a URI without a trailing ``/``."""

    @property
    def owner(self) -> str:
        """The file with the owner's id; only one of two `up` can create it."""
        return f"{self.root}/owner"

    @property
    def public(self) -> str:
        """Files that the NodeManagers fetch as themselves."""
        return f"{self.root}/public"

    @property
    def private(self) -> str:
        """Files that only the owner may read."""
        return f"{self.root}/private"

    @property
    def shelf(self) -> str | None:
        """The directory of all clusters, if TARN chose it and so removes it; else None."""
        parent = self.root.rpartition("/")[0]
        return parent if parent.endswith(f"/{HOME}") else None

    @property
    def launches(self) -> str:
        """Directory of the instances' launch files."""
        return f"{self.private}/launches"


@attrs.frozen
class Staging:
    """One cluster's directory.

    Args:
        files: The file system.
        layout: The paths.
        state: Returns whether an application id is alive; None if YARN does not know it.
        at: Returns the wall time, Unix seconds. The file system's clock must be within a minute.
    """

    files: Files
    layout: Layout
    state: Callable[[str], bool | None]
    at: Callable[[], float]

    def take(self, name: str, application_id: str) -> None:
        """Make *application_id* the owner; remove the files of a dead one.

        Raises:
            RefusedError: The owner is alive, or being submitted (TARN-2103).
        """
        try:
            self.files.write(self.layout.owner, application_id.encode(), mode=_PUBLIC_MODE)
        except RefusedError:
            self._take_over(name, application_id)

    def fill(
        self, public: Mapping[str, bytes], private: Mapping[str, bytes]
    ) -> tuple[FileEntry, ...]:
        """Write the master's files, and return the public ones.

        The *private* ones are copies for the owner's other machines.
        """
        layout = self.layout
        wanted = [(f"{layout.public}/{name}", public[name], _PUBLIC_MODE) for name in public]
        wanted += [(f"{layout.private}/{name}", private[name], _PRIVATE_MODE) for name in private]
        # In parallel, since each write waits for the disks of data nodes.
        with ThreadPoolExecutor(thread_name_prefix="staging") as pool:
            written = [
                pool.submit(self.files.write, uri, data, mode=mode, replace=True)
                for uri, data, mode in wanted
            ]
        for each in written:
            each.result()
        return self.files.listing(layout.public)

    def remove(self, application_id: str) -> None:
        """Remove the directory if this application still owns it. Idempotent."""
        try:
            holder = self._holder().id
        except (NotFoundError, _Moved):
            return
        if holder != application_id:
            return
        try:
            # From here on no other process can take it over while it is being removed.
            note = f"{_ENDED}{holder}".encode()
            self.files.write(self._after(holder), note, mode=_PUBLIC_MODE)
        except (RefusedError, NotFoundError):
            return  # the master that ended, or a client, is removing it
        self.files.remove(self.layout.root)
        if self.layout.shelf:
            self.files.prune(self.layout.shelf)

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
        # Files of the dead application: the new one must not start with any of them.
        self.files.remove(self.layout.public)
        self.files.remove(self.layout.private)
        self.files.write(
            self.layout.owner, application_id.encode(), mode=_PUBLIC_MODE, replace=True
        )
        # Last, since the notes keep other processes away until the file ``owner`` has the new id.
        for entry in self.files.listing(self.layout.root):
            if entry.path.startswith("after-"):
                self.files.remove(entry.uri)

    def _follow(self, before: "_Holder", application_id: str) -> None:
        """Become the next in the chain; raise ``_Moved`` if another process was faster."""
        note = self._after(before.id)
        try:
            self.files.write(note, application_id.encode(), mode=_PUBLIC_MODE)
        except RefusedError:
            raise _Moved from None
        # A faster process may have taken over and removed its own note before this one was created.
        # Then the owner has changed.
        if self._read(self.layout.owner) != before.owner:
            self.files.remove(note)
            raise _Moved

    def _holder(self) -> "_Holder":
        """Return the holder of the name, which is the end of the chain of notes."""
        # Notes never change. Reading the owner before and after the listing ensures that its id and
        # its time belong together.
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
    """The holder of a name."""

    id: str
    age_s: float
    owner: str
    """Content of the file ``owner``; another id during a take-over."""


class _Moved(Exception):  # noqa: N818 (a state of affairs)
    """Another process is changing the owner."""


def _refused(name: str, what: str) -> RefusedError:
    return RefusedError(
        f"{name} {what}", code="TARN-2103", next_step=f"`tarn status -c {name}` shows it"
    )
