"""The people and machines that are known by name before any text is read."""

import contextlib
import getpass
import html
import re
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from tarn import config
from tarn.cluster.bundle.pseudonyms import Pseudonyms
from tarn.cluster.environment import ClusterEnvironment
from tarn.domain import ClusterSpec

__all__ = ["people_and_machines"]


_MOST = 2**20
"""Characters of one file: none is larger."""
_VALUE = re.compile(r"<value>\s*([^<]+?)\s*</value>")
_HOSTNAME = re.compile(r"hostname[\w.\-]*\s*</name>\s*<value>\s*([\w.\-]+)\s*</value>")


def people_and_machines(spec: ClusterSpec | None, around: ClusterEnvironment) -> Pseudonyms:
    """Return whoever and whatever this process and the spec name."""
    names = Pseudonyms()
    for host in (socket.getfqdn(), socket.gethostname()):
        names.host(host)
    names.user(around.environ.get("USER") or _user())
    home = Path(around.environ.get("HOME") or "/").name
    names.user(home)
    for text in _hadoop(around.environ):
        for host in _hosts(text):
            names.host(host)
    if spec is not None:
        _of_spec(spec, names)
    return names


def _of_spec(spec: ClusterSpec, names: Pseudonyms) -> None:
    for user in (*spec.admins.users, *spec.viewers.users):
        names.user(user)
    for proxy in spec.api.trusted_proxies:
        names.host(proxy.address.partition("/")[0])
    for text in _texts(config.dump(spec)):
        for host in _hosts(text):
            names.host(host)


def _hadoop(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the values of Hadoop's configuration on this machine: where its servers are."""
    home = environ.get("HADOOP_HOME")
    conf = environ.get("HADOOP_CONF_DIR") or (f"{home}/etc/hadoop" if home else "")
    if not conf:
        return
    for path in sorted(Path(conf).glob("*-site.xml")):
        with contextlib.suppress(OSError):
            text = path.read_text("utf-8", "replace")[:_MOST]
            yield from (html.unescape(value) for value in _VALUE.findall(text))
            yield from (f"{host}:0" for host in _HOSTNAME.findall(text))


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name
        return ""


def _texts(plain: object) -> Iterator[str]:
    if isinstance(plain, Mapping):
        for value in plain.values():
            yield from _texts(value)
    elif isinstance(plain, list | tuple):
        for value in plain:
            yield from _texts(value)
    elif isinstance(plain, str):
        yield plain


def _hosts(text: str) -> Iterator[str]:
    """Yield the machines in a URL, or in a list such as ``zk1:2181,zk2:2181``."""
    if "://" in text:
        try:
            yield urlsplit(text).hostname or ""
        except ValueError:
            return
        return
    for one in text.split(","):
        host, colon, port = one.strip().rpartition(":")
        if colon and port.partition("/")[0].isdigit() and "/" not in host and " " not in host:
            yield host
