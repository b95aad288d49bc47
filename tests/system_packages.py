"""Which programs each nox session takes from the machine, and which Debian package brings them.

``python3 tests/system_packages.py [SESSION...]`` prints the packages that are missing here, for all
sessions by default; `.ci/run` installs them. It needs nothing but the standard library.
"""

import shutil
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from pathlib import Path

HEADER, LIBRARY = "Python.h", "libpython"
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
PACKAGES: Mapping[str, str] = {
    # Triton's Python backend loads Python's shared library, where it is not built in.
    LIBRARY: f"libpython{VERSION}",
    # The test YARN, ZooKeeper, Knox and Ranger's engine: Java, with jars that Maven brings.
    "java": "default-jdk-headless",
    "javac": "default-jdk-headless",
    "mvn": "maven",
    # Kerberos: the KDC, who makes its principals, and their tickets and keytabs.
    "krb5kdc": "krb5-kdc",
    "kadmin.local": "krb5-admin-server",
    "kinit": "krb5-user",
    "ktutil": "krb5-user",
    # Its client in Python is compiled: headers of Kerberos and Python, and a compiler.
    "krb5-config": "libkrb5-dev",
    "gcc": "gcc libc6-dev",
    HEADER: "python3-dev",
    # A client that negotiates.
    "curl": "curl",
    # The shells that may be a node's sh: a launch file is tried in each of them.
    "dash": "dash",
    "busybox": "busybox",
    # The load balancer, and certificates for it and for ZooKeeper.
    "haproxy": "haproxy",
    "openssl": "openssl",
    # A dockerd of the tests' own, and an image that is made of Debian's packages.
    "docker": "docker.io",
    "dockerd": "docker.io",
    "debootstrap": "debootstrap",
    "zstd": "zstd",
    "ip": "iproute2",
    # A browser that looks at the dashboard, and who scrapes and checks metrics and alert rules.
    "chromium": "chromium fonts-dejavu-core",
    "prometheus": "prometheus",
    "promtool": "prometheus",
}

BUILD_KERBEROS = ("krb5-config", "gcc", HEADER)
"""What `pip install gssapi` compiles with; without it a session ends at once."""
_TRITON = (LIBRARY,)
_HADOOP = (*_TRITON, "java", "mvn", *BUILD_KERBEROS)
_JAVA_BUILD = ("java", "javac", "mvn")
_KDC = ("krb5kdc", "kadmin.local", "kinit", "curl")
_SMALL = ("dash", "busybox", "ktutil", "promtool")

SESSIONS: Mapping[str, tuple[str, ...]] = {
    "unit": _SMALL,
    "minimums": _SMALL,
    "local": _TRITON,
    "first_user": _TRITON,
    "endurance": _TRITON,
    "scaling": (*_TRITON, "haproxy"),
    "yarn": (*_HADOOP, *_KDC, "haproxy", "openssl", "chromium"),
    "yarn_older": _HADOOP,
    "yarn_newer": _HADOOP,
    "docker": (*_HADOOP, "docker", "dockerd", "debootstrap", "zstd", "ip"),
    "knox_jar": _JAVA_BUILD,
    "discovery": (*_TRITON, *_JAVA_BUILD, "haproxy", "openssl", "dash", "busybox", "curl"),
    "security": (*_HADOOP, *_KDC),
    "gray": (*_TRITON, "haproxy"),
    "one_triton": (*_TRITON, "haproxy"),
    "perf_analyzer": (*_TRITON, "haproxy"),
    "limits": ("gcc",),
    "observe": (*_TRITON, "chromium", "prometheus", "promtool"),
    "bench": (*_HADOOP, "javac", "haproxy"),
}
"""A session that is not here needs no package."""


def missing(programs: Iterable[str]) -> list[str]:
    """Return those of *programs* that this machine lacks."""
    return [program for program in programs if not _is_there(program)]


def packages(programs: Iterable[str]) -> str:
    """Return the packages that bring *programs*, for ``apt-get install``."""
    words = (word for program in programs for word in PACKAGES[program].split())
    return " ".join(dict.fromkeys(words))


def needs(session: str) -> str:
    """Return one line that names what a session needs and what is missing; empty if nothing."""
    programs = SESSIONS.get(session, ())
    if not programs:
        return ""
    line = f"needs from Debian: {packages(programs)}"
    lacking = missing(programs)
    if not lacking:
        return f"{line} (all found)"
    return f"{line}; NOT FOUND: {', '.join(lacking)} (apt-get install {packages(lacking)})"


def _is_there(program: str) -> bool:
    if program == HEADER:
        return Path(sysconfig.get_path("include"), HEADER).exists()
    if program == LIBRARY:
        name = sysconfig.get_config_var("INSTSONAME") or ""
        return ".so" in name and Path(sysconfig.get_config_var("LIBDIR"), name).exists()
    # Servers lie where a user's PATH may not lead.
    return any(
        shutil.which(program, path=path) for path in (None, "/usr/sbin:/usr/local/sbin:/sbin")
    )


if __name__ == "__main__":
    wanted = [program for session in sys.argv[1:] or SESSIONS for program in SESSIONS[session]]
    print(packages(missing(wanted)))
