"""Name a change of the source that no file in ``changelog.d`` tells of.

``python3 -m tests.changelog_fragments [REV]`` looks at what differs from REV, by default from where
this branch left ``main``. Only a person knows whether a user can notice a change, so `nox -s lint`
names it, and does not fail.
"""

import sys
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

sys.path.insert(0, str(Path(__file__).parent))  # it is off the path as `python3 -m tests...`
from changed_tests import changed

__all__ = ["reminder"]

_SHOWN = 5


def reminder(paths: Iterable[str]) -> str:
    """Return what to say of a change of *paths*; nothing where it is told of, or not of source."""
    parts = [PurePosixPath(path) for path in paths]
    told = any(part.parent.name == "changelog.d" and part.name != "README.md" for part in parts)
    sources = [str(part) for part in parts if part.parts[0] == "src"]
    if told or not sources:
        return ""
    more = f" and {len(sources) - _SHOWN} more" if len(sources) > _SHOWN else ""
    return (
        f"no file in changelog.d tells of the change of {', '.join(sources[:_SHOWN])}{more}: "
        "add one if a user can notice it (changelog.d/README.md)"
    )


if __name__ == "__main__":
    print(reminder(changed(*sys.argv[1:2])) or "nothing to tell of")
