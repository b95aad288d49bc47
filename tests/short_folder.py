"""A folder for Unix sockets, whose paths may have 107 bytes; HAProxy adds some to them."""

import shutil
import tempfile
import weakref
from pathlib import Path


def short_folder(owner: object) -> Path:
    """Return a new folder that goes with *owner*."""
    path = Path(tempfile.mkdtemp(prefix="ha", dir="/tmp"))
    weakref.finalize(owner, shutil.rmtree, path, ignore_errors=True)
    return path
