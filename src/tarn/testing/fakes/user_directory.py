"""Names of a made-up realm."""

from collections.abc import Mapping

__all__ = ["FakeUserDirectory"]


class FakeUserDirectory:
    """Knows the users of one realm, and their groups; usable from any thread.

    Args:
        users: User to groups.
    """

    realm = "FAKE.EXAMPLE"

    def __init__(self, users: Mapping[str, frozenset[str]] | None = None) -> None:
        self.users = dict(users or {"alice": frozenset({"analysts"}), "bob": frozenset()})

    def short(self, principal: str) -> str:
        """Return what stands before the realm, of its own users; else nothing."""
        user, at, realm = principal.partition("@")
        return user if at and realm == self.realm and user in self.users else ""

    def groups(self, user: str) -> frozenset[str]:
        """Return the groups of *user*."""
        return self.users.get(user, frozenset())
