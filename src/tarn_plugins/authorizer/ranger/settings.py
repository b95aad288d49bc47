"""``authorizer.options`` of ``use: ranger``, and where a site keeps what belongs to Ranger."""

import re
from pathlib import Path

import attrs

__all__ = ["CONF_DIR", "JARS", "SERVICE_TYPE", "RangerSettings", "check_service"]

SERVICE_TYPE = "triton"
"""The kind of Ranger service: names the definition, and the files of the site's configuration."""
CONF_DIR = Path("/etc/ranger/tarn")
JARS = (Path("/usr/lib/ranger-triton-plugin/lib"), Path("/opt/ranger-triton-plugin/lib"))
"""Looked at after ``lib`` in ``conf_dir``, where no ``jars`` are named."""

_SERVICE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9 _-]{0,254}")
"""What Ranger Admin takes as the name of a service."""
_APP_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
"""It becomes a part of file names."""


def check_service(name: str) -> str:
    """Return *name*; ``ValueError`` where Ranger has no service of such a name. Pure."""
    if not _SERVICE.fullmatch(name):
        raise ValueError(
            f"service = {name!r} is not the name of a Ranger service; use letters, digits, "
            "blanks, '_' and '-'"
        )
    return name


@attrs.frozen
class RangerSettings:
    """``authorizer.options`` of ``ranger``. Paths are those of the master's machine."""

    service: str
    """The service in Ranger Admin whose policies decide."""
    app_id: str = "tarn"
    """What Ranger's audit and its list of plugins call this program."""
    audit: bool = True
    """Write each decision to where ``ranger-triton-audit.xml`` says."""
    conf_dir: Path = CONF_DIR
    """Holds the site's ``ranger-triton-security.xml`` and ``ranger-triton-audit.xml``."""
    jars: Path | tuple[Path, ...] | None = None
    """Directory with Ranger's jars, or each of them. None: ``lib`` in ``conf_dir``, then
    ``/usr/lib/ranger-triton-plugin/lib``, then ``/opt/ranger-triton-plugin/lib``."""
    strict: bool = True
    """Of the Java TARN: deny while Ranger cannot answer. That is always so; no is refused."""

    def __attrs_post_init__(self) -> None:
        """Refuse what cannot be meant, before anything starts."""
        check_service(self.service)
        if not _APP_ID.fullmatch(self.app_id):
            raise ValueError(
                f"app_id = {self.app_id!r}: it becomes part of file names; use at most 64 "
                "letters, digits, '_', '.' and '-', the first a letter or digit"
            )
        if not self.strict:
            raise ValueError(
                "strict = false would open every model while Ranger does not answer. Remove it: "
                "the policies that were downloaded last stay in force, and are shown as stale"
            )
