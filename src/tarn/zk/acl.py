"""Who may do what with a node, and who we are. Pure."""

from typing import Self

import attrs

from tarn.errors import ConfigError

__all__ = ["CREATOR_AND_READERS", "AclEntry", "Login"]


@attrs.frozen
class Login:
    """User and password of the scheme ``digest``; the password shows nowhere."""

    user: str
    password: str = attrs.field(repr=False)

    @property
    def text(self) -> str:
        """``user:password``, as ZooKeeper takes it. A secret."""
        return f"{self.user}:{self.password}"

    @classmethod
    def parse(cls, text: str, where: str) -> Self:
        """Read ``user:password``; *where* names the place it came from.

        Raises:
            ConfigError: It is something else; the message does not quote it.
        """
        user, colon, password = text.strip().partition(":")
        if not (user and colon and password):
            raise ConfigError("does not hold user:password", where=where)
        return cls(user, password)


@attrs.frozen
class AclEntry:
    """One line of an ACL."""

    scheme: str
    id: str
    permissions: str
    """Some of ``c`` create, ``d`` delete, ``r`` read, ``w`` write, ``a`` admin."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``scheme:id:permissions``, as ZooKeeper's own ``setAcl`` takes it.

        Raises:
            ConfigError: It is something else.
        """
        scheme, _, rest = text.partition(":")
        name, colon, permissions = rest.rpartition(":")
        letters = set(permissions)
        if not scheme or not colon or not letters or not letters <= set("cdrwa"):
            raise ConfigError(
                f"'{text}' is not a line of an ACL",
                right="Expected scheme:id:permissions: world:anyone:r, auth::cdrwa.",
            )
        return cls(scheme, name, permissions)


CREATOR_AND_READERS = (AclEntry("auth", "", "cdrwa"), AclEntry("world", "anyone", "r"))
"""The user who made a node may do everything with it, and everybody may read it."""
