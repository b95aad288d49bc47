"""Find the next step in what YARN or HDFS says about a failure. Pure."""

import re
from urllib.parse import urlsplit

from tarn.plain import pasted
from tarn.triton.exits import PHYSICAL, VIRTUAL, memory_use

__all__ = ["memory_hint", "permission_step"]

# HDFS names the inode that denied access, which may be a directory above the requested one.
_SAID = re.compile(
    r"user=(?P<user>[^,\s]+), access=(?P<access>[A-Z_]+), "
    r'inode="(?P<inode>[^"]+)":(?P<owner>[^:\s]+):[^:\s]+:(?P<mode>[d-][rwxtT-]{9})'
)
_READ = frozenset({"READ", "READ_WRITE", "READ_EXECUTE", "ALL"})
_WRITE = frozenset({"WRITE", "READ_WRITE", "WRITE_EXECUTE", "ALL"})
_EXECUTE = frozenset({"EXECUTE", "READ_EXECUTE", "WRITE_EXECUTE", "ALL"})

# Exit codes of YARN's ``ContainerExitStatus``. If YARN's SIGTERM or SIGKILL ends the process before
# YARN sets the code, the code is 143 or 137, and only the diagnostics tell why.
_KINDS = {-103: VIRTUAL, -104: PHYSICAL}


def permission_step(said: str, uri: str = "") -> str:
    """Return the commands that permit what HDFS denied; '' if *said* names no inode.

    Args:
        said: The message of HDFS; it names the user, the access, and the inode's owner and mode.
        uri: The requested file or directory; the commands name its NameNode.
    """
    found = _SAID.search(said)
    if found is None:
        return ""
    asked = urlsplit(uri)
    place = f"hdfs://{asked.netloc}" if asked.scheme == "hdfs" else ""
    inode = f"{place}{found['inode']}"
    access = found["access"]
    # A user of a directory also needs the permission to pass through it.
    passes = access in _EXECUTE or found["mode"].startswith("d")
    needed = "".join(
        letter if granted else "-"
        for letter, granted in (("r", access in _READ), ("w", access in _WRITE), ("x", passes))
    )
    letters = needed.replace("-", "")
    if found["user"] == found["owner"]:  # HDFS ignores ACL entries for the owner
        return f"`{pasted('hdfs', 'dfs', '-chmod', f'u+{letters}', inode)}`"
    user = f"user:{found['user']}:{needed}"
    return (
        f"As {found['owner']}, who owns {found['inode']}: "
        f"`{pasted('hdfs', 'dfs', '-setfacl', '-m', user, inode)}`, "
        f"or for everybody `{pasted('hdfs', 'dfs', '-chmod', f'a+{letters}', inode)}`"
    )


def memory_hint(code: int, diagnostics: str, key: str, asked_mib: int | None = None) -> str:
    """Return how much memory was used, and what to raise; '' if memory was not the cause.

    Args:
        code: The exit code of the container.
        diagnostics: YARN's text about its end.
        key: The key of the spec for its memory, such as ``master.memory``.
        asked_mib: How much memory was requested; None if unknown.
    """
    kind = _KINDS.get(code)
    if code < 0 and kind is None:
        return ""
    use = memory_use(diagnostics, kind)
    if use is None and kind is None:
        return ""
    used = f"it used {use}" if use else f"it used too much {kind} memory"
    asked = "" if asked_mib is None else f" ({key} asked for {asked_mib} MiB)"
    ratio = ", or yarn.nodemanager.vmem-pmem-ratio" if VIRTUAL in (kind, use and use.kind) else ""
    return f"out of memory: {used}{asked}. Raise {key}{ratio}"
