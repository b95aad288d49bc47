"""A kind of failure of Docker on YARN: pattern, words, fix, and who is to blame."""

import enum
import re

import attrs

__all__ = ["CFG", "DOCKER", "RUNTIME", "SITE", "Blame", "FailurePattern", "row"]

SITE = "in yarn-site.xml of the NodeManagers"
CFG = "in the section [docker] of container-executor.cfg on the NodeManagers' nodes"
DOCKER = "runtime.options.docker"
RUNTIME = "yarn.nodemanager.runtime.linux"


class Blame(enum.Enum):
    """Whose fault it is, and so what is tried next."""

    SPEC = enum.auto()
    """Every node refuses this spec: nothing is tried again."""
    NODE = enum.auto()
    """This node lacks something; another one may not."""
    PORT = enum.auto()
    """Somebody holds the port on this node; the next set is tried."""
    NOBODY = enum.auto()
    """It may work later."""


@attrs.frozen
class FailurePattern:
    """One kind of failure. Named groups of *pattern* stand in the words."""

    code: str
    pattern: re.Pattern[str]
    found: str
    step: str
    blame: Blame
    needs: str = ""
    """Text that must be there too."""


def row(  # noqa: PLR0913, PLR0917
    code: str, pattern: str, found: str, step: str, blame: Blame, needs: str = ""
) -> FailurePattern:
    """Return one row of the table."""
    return FailurePattern(code, re.compile(pattern), found, step, blame, needs)
