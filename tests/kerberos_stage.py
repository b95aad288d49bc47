"""What tests on a Kerberized YARN do with keys and tickets, by Kerberos's own programs."""

import getpass
import subprocess
from pathlib import Path

from yarn_stage import Hadoop

from tarn_plugins.cli.sandbox.kerberos import with_sbin

ME = getpass.getuser()


def keytab(hadoop: Hadoop, name: str) -> Path:
    """Return the keys of ``user``, ``alice``, ``lb``, or those of masters (``spnego``)."""
    return hadoop.directory / "data" / "kerberos" / f"{name}.keytab"


def login(principal: str, keytab: Path) -> dict[str, object]:
    return {"kerberos": {"principal": principal, "keytab": str(keytab)}}


def run(words: list[str], environ: dict[str, str], told: str = "") -> str:
    """Run one of Kerberos's own programs."""
    done = subprocess.run(
        words,
        env=with_sbin(environ),
        input=told,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=30,
    )
    return done.stdout
