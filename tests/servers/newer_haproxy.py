"""HAProxys of newer Debian releases, unpacked beside their own C library and started with that."""

import shlex
from pathlib import Path

import pytest

RELEASES = {"trixie": "3.0", "sid": "3.2"}
"""Release to the series of HAProxy that it has."""
SERIES = {series: release for release, series in RELEASES.items()}
PACKAGES = (
    *("haproxy", "libc6", "libcap2", "libcrypt1", "libgcc-s1", "liblua5.4-0", "libpcre2-8-0"),
    *("libssl3t64", "libsystemd0", "libzstd1", "zlib1g"),
)


def haproxy_program(release: str) -> Path:
    """Return a program that starts the HAProxy of *release*; fetched once, into the user's cache.

    The test is skipped, with the reason, where apt brings no such packages.
    """
    packages = pytest.importorskip("servers.debian_packages", reason="no reader of packages here")
    try:
        found = packages.unpacked(release, *PACKAGES)
    except packages.PackagesMissingError as error:
        pytest.skip(f"no HAProxy {RELEASES[release]}: {error}", allow_module_level=True)
    program = Path(found.root).parent / f"haproxy-{release}"
    text = f'#!/bin/sh\nexec {shlex.join(found.command("usr/sbin/haproxy"))} "$@"\n'
    if not program.exists() or program.read_text() != text:
        program.write_text(text)
        program.chmod(0o755)
    return program
