"""How Hadoop calls people: by ``hadoop.security.auth_to_local``, and its mapping of groups."""

from typing import Any

import attrs

from tarn.errors import ProviderError
from tarn.java import describe, load, throwable

__all__ = ["HadoopNames"]

_RULES = "hadoop.security.auth_to_local"
_UNRULED = "org.apache.hadoop.security.authentication.util.KerberosName$NoMatchingRule"
_MALFORMED = "java.lang.IllegalArgumentException"
_UNKNOWN = "No groups found for user"
"""What it says of somebody who is in none, and of somebody unknown (``Groups.noGroupsForUser``)."""


@attrs.define
class HadoopNames:
    """The `UserDirectory` of the cluster. Any thread; needs the JVM.

    Hadoop itself remembers groups.
    """

    conf: Any
    """A Java ``Configuration``."""

    _groups: Any = attrs.field(init=False)
    """``Groups``: unlike ``UserGroupInformation`` it says when it could not look."""

    def __attrs_post_init__(self) -> None:
        rules = load("org.apache.hadoop.conf.Configuration")(self.conf)
        if not str(self.conf.getTrimmed(_RULES) or ""):
            # A Hadoop without Kerberos would drop the realm, whichever it is.
            rules.set(_RULES, "DEFAULT")
        load("org.apache.hadoop.security.HadoopKerberosName").setConfiguration(rules)
        groups = load("org.apache.hadoop.security.Groups")
        self._groups = groups.getUserToGroupsMappingService(self.conf)

    def short(self, principal: str) -> str:
        """Return the user's name of *principal*; empty: no rule fits it, or it is none."""
        try:
            name = load("org.apache.hadoop.security.HadoopKerberosName")(principal)
            return str(name.getShortName() or "")
        except throwable() as error:
            fault = describe(error)
            if fault.is_a(_UNRULED, _MALFORMED):
                return ""
            raise ProviderError("yarn", str(fault), where=principal) from None

    def groups(self, user: str) -> frozenset[str]:
        """Return the groups of *user*, where Hadoop looks them up; none of somebody unknown."""
        try:
            return frozenset(str(one) for one in self._groups.getGroups(user))
        except throwable() as error:
            fault = describe(error)
            if _UNKNOWN in fault.message:
                return frozenset()
            raise ProviderError("yarn", str(fault), where=user) from None
