"""How Hadoop calls people: by ``hadoop.security.auth_to_local``, and its mapping of groups."""

from typing import Any

import attrs

from tarn.errors import ProviderError
from tarn.java import describe, load, throwable

__all__ = ["HadoopNames"]

_UNRULED = "org.apache.hadoop.security.authentication.util.KerberosName$NoMatchingRule"
_MALFORMED = "java.lang.IllegalArgumentException"


@attrs.define
class HadoopNames:
    """`Names` of the cluster. Any thread; needs the JVM. Hadoop itself remembers groups."""

    conf: Any
    """A Java ``Configuration``."""

    def __attrs_post_init__(self) -> None:
        load("org.apache.hadoop.security.HadoopKerberosName").setConfiguration(self.conf)

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
            asked = load("org.apache.hadoop.security.UserGroupInformation").createRemoteUser(user)
            return frozenset(str(one) for one in asked.getGroupNames())
        except throwable() as error:
            raise ProviderError("yarn", str(describe(error)), where=user) from None
