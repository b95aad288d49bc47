"""What opens a file or directory of HDFS to a user whom it was denied. Pure."""

import re
from urllib.parse import urlsplit

from tarn.plain import pasted

__all__ = ["opening"]

_SAID = re.compile(
    r"user=(?P<user>[^,\s]+), access=(?P<access>[A-Z_]+), "
    r'inode="(?P<inode>[^"]+)":(?P<owner>[^:\s]+):[^:\s]+:(?P<mode>[d-][rwxtT-]{9})'
)
"""HDFS names the file or directory that refused: one above what was asked for, where that lets
nobody pass."""
_READ = frozenset({"READ", "READ_WRITE", "READ_EXECUTE", "ALL"})
_WRITE = frozenset({"WRITE", "READ_WRITE", "WRITE_EXECUTE", "ALL"})
_EXECUTE = frozenset({"EXECUTE", "READ_EXECUTE", "WRITE_EXECUTE", "ALL"})


def opening(said: str, uri: str = "") -> str:
    """Return the commands that permit what HDFS denied; '' where *said* names no inode.

    Args:
        said: What HDFS said: user, access, and the inode with its owner and mode.
        uri: What was asked for. Its NameNode is named in the commands.
    """
    found = _SAID.search(said)
    if found is None:
        return ""
    asked = urlsplit(uri)
    place = f"hdfs://{asked.netloc}" if asked.scheme == "hdfs" else ""
    inode = f"{place}{found['inode']}"
    needed = _needed(found["access"], directory=found["mode"].startswith("d"))
    letters = needed.replace("-", "")
    if found["user"] == found["owner"]:  # an entry for the owner's own name would not count
        return f"`{pasted('hdfs', 'dfs', '-chmod', f'u+{letters}', inode)}`"
    user = f"user:{found['user']}:{needed}"
    return (
        f"As {found['owner']}, who owns {found['inode']}: "
        f"`{pasted('hdfs', 'dfs', '-setfacl', '-m', user, inode)}`, "
        f"or for everybody `{pasted('hdfs', 'dfs', '-chmod', f'a+{letters}', inode)}`"
    )


def _needed(access: str, *, directory: bool) -> str:
    """Return *access* as HDFS writes permissions; who uses a directory has to pass it, too."""
    passes = access in _EXECUTE or directory
    return (
        ("r" if access in _READ else "-")
        + ("w" if access in _WRITE else "-")
        + ("x" if passes else "-")
    )
