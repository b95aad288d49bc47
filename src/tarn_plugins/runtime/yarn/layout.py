"""Where a cluster's files lie on the Hadoop file system. Pure.

::

    <staging>/<name>/owner                    0644  the application's id; made exclusively
    <staging>/<name>/public/                  0755  the master's own files, free of secrets
    <staging>/<name>/private/                 0700
              spec.yaml staged.json api_token yarn.json   copies for the owner's other machines
              launches/<record>               0600  argv, environment and secrets of an instance
              state-<attempt>-<n>.json        0600
              kept-<name>-<attempt>           0600
"""

import attrs

__all__ = ["HOME", "Layout"]

HOME = ".tarn"
"""The directory of all clusters, in the user's home directory, unless somebody names another."""


@attrs.frozen
class Layout:
    """The directory of one cluster."""

    root: str
    """``<staging>/<name>``, a URI without a trailing ``/``."""

    @property
    def owner(self) -> str:
        """Who holds the name: the file that of two `up` only one can make."""
        return f"{self.root}/owner"

    @property
    def public(self) -> str:
        """Files that the NodeManagers fetch as themselves."""
        return f"{self.root}/public"

    @property
    def private(self) -> str:
        """Everything that is nobody else's business."""
        return f"{self.root}/private"

    @property
    def shelf(self) -> str | None:
        """The directory of all clusters, where TARN chose it: it goes with the last of them."""
        parent = self.root.rpartition("/")[0]
        return parent if parent.endswith(f"/{HOME}") else None

    @property
    def launches(self) -> str:
        """One launch file for each instance."""
        return f"{self.private}/launches"
