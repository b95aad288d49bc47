"""Replace each name of a person or machine by the same stand-in everywhere."""

import contextlib
import getpass
import html
import ipaddress
import re
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import attrs

from tarn.domain import ClusterSpec
from tarn.plain import unstructure

__all__ = ["Pseudonyms", "people_and_machines"]

HOST, ADDRESS, USER, REALM = "host", "address", "user", "realm"

# Accounts that every installation has, and words that occur in place of a name.
_NOBODY = frozenset(
    {
        "root",
        "hdfs",
        "yarn",
        "hadoop",
        "mapred",
        "hive",
        "spark",
        "nobody",
        "owner",
        "tarn",
        "admin",
        "http",
        "anonymous",
        "dr.who",
        "localhost",
        "triton-server",
        "none",
        "null",
        "true",
        "false",
        "unknown",
        "user",
        "users",
        "home",
        "you",
        "somebody",
        "everybody",
        "default",
        "appcache",
        "filecache",
    }
)
# Public hosts of documentation and images.
_PUBLIC = ("apache.org", "github.com", "nvcr.io", "nvidia.com", "python.org", "prometheus.io")
_SHORTEST = 3
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9\-]{0,61}[A-Za-z0-9])?"
_NAME = r"[A-Za-z_][\w.\-]*"

_URL_HOST = re.compile(
    rf"[A-Za-z][A-Za-z0-9+.\-]{{0,40}}://(?:[^/\s@\"']*@)?({_LABEL}(?:\.{_LABEL})*)"
)
_JAVA_HOST = re.compile(rf"(?<![A-Za-z0-9.\-])({_LABEL}(?:\.{_LABEL})*)/\d+\.\d+\.\d+\.\d+")
_SAID_HOST = re.compile(
    rf"\b(?:on|at|from|to|host|node|server)[ =:]+[\"']?((?:{_LABEL}\.){{1,9}}[A-Za-z]{{2,63}})"
    r"(?![A-Za-z0-9.(\-])"
)
# Names with dots that are not hosts: classes of Java, modules, files.
_NO_HOST = re.compile(
    r"(?:org|com|java|javax|io|sun|jdk|tarn|tarn_plugins)\..*"
    r"|.*\.(?:yaml|json|jsonl|py|log|txt|pbtxt|gz|zip|xml|so|jar|java|cc|h|keytab|conf|md|pem|onnx)"
)
_FIELD_HOST = re.compile(
    rf"\"(?:node|host|hostname|http|grpc|metrics|fqdn)\":\s*\"(?:https?://)?({_LABEL}(?:\.{_LABEL})*)[\":]"
)
_IPV4 = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w]|\.\d)")
_IPV6 = re.compile(r"(?<![\w:.])(?=[0-9A-Fa-f:]*:[0-9A-Fa-f:]*:)[0-9A-Fa-f:]{3,39}(?![\w:])")
_PRINCIPAL = re.compile(
    rf"(?<![\w.\-])({_NAME})(?:/({_LABEL}(?:\.{_LABEL})*))?@(?!sha256:)({_LABEL}(?:\.{_LABEL})*)"
)
_FOLDER = re.compile(rf"/(?:home|Users|user|usercache)/({_NAME})")
_FIELD_USER = re.compile(
    rf"[\"']?\b(?:user|ugi|owner|principal|asked_by|by_user|remote_user|login)[\"']?\s*[=:]\s*[\"']?({_NAME})"
)
# A name ends before an underscore: YARN writes ``node1.example.com_18041``.
_WORD = r"[A-Za-z0-9]"
_STAND_IN: Final = re.compile(rf"(?:{HOST}|{ADDRESS}|{USER}|{REALM})-\d+")
# Characters read of one configuration file; real ones are smaller.
_MOST = 2**20
_VALUE = re.compile(r"<value>\s*([^<]+?)\s*</value>")
_HOSTNAME = re.compile(r"hostname[\w.\-]*\s*</name>\s*<value>\s*([\w.\-]+)\s*</value>")


@attrs.define
class Pseudonyms:
    """The stand-ins of one bundle: call `learn` with every text first, then `replace`."""

    stand_ins: dict[str, str] = attrs.field(factory=dict, repr=False)
    """Name to stand-in."""
    _domains: set[str] = attrs.field(factory=set)
    _pattern: re.Pattern[str] | None = None

    def host(self, name: str) -> None:
        """Add a machine; its short name gets the same stand-in."""
        name = name.strip("[]").rstrip(".")
        if not name or _loopback(name):
            return
        if _address(name):
            self._add(ADDRESS, name)
            return
        if not name.lower().endswith(_PUBLIC) and not name.isdigit():
            short, _, domain = name.partition(".")
            stand_in = self._add(HOST, name)
            if domain and stand_in:
                self._alias(short, stand_in)
                self._domains.add(domain)

    def user(self, name: str) -> None:
        """Add a person."""
        self._add(USER, name)

    def realm(self, name: str) -> None:
        """Add a Kerberos realm, or the domain of a mail address."""
        self._add(REALM, name)

    def learn(self, text: str) -> None:
        """Add the names that *text* gives as those of people and machines."""
        for name in _machines(text):
            self.host(name)
        for user, host, realm in dict.fromkeys(_PRINCIPAL.findall(text)):
            self.user(user)
            self.host(host)
            self.realm(realm)
        for name in _found(text, _FOLDER, _FIELD_USER):
            self.user(name)
        for domain in tuple(self._domains):  # a name in a known machine's domain is a machine, too
            neighbour = re.compile(
                rf"(?<![A-Za-z0-9.\-])((?:{_LABEL}\.)+{re.escape(domain)})(?!{_WORD})"
            )
            for name in _found(text, neighbour):
                self.host(name)

    def replace(self, text: str) -> str:
        """Return *text* with a stand-in for every known name."""
        if not self.stand_ins:
            return text
        if self._pattern is None:
            known = sorted(self.stand_ins, key=lambda name: (-len(name), name))
            longest_first = "|".join(map(re.escape, known))
            self._pattern = re.compile(f"(?<!{_WORD})(?:{longest_first})(?!{_WORD})")
        return self._pattern.sub(lambda found: self.stand_ins[found[0]], text)

    def _add(self, kind: str, name: str) -> str:
        if len(name) < _SHORTEST or name.lower() in _NOBODY or _STAND_IN.fullmatch(name):
            return ""
        if name not in self.stand_ins:
            count = sum(1 for one in set(self.stand_ins.values()) if one.startswith(f"{kind}-"))
            self._alias(name, f"{kind}-{count + 1}")
        return self.stand_ins[name]

    def _alias(self, name: str, stand_in: str) -> None:
        if len(name) >= _SHORTEST and name.lower() not in _NOBODY and name not in self.stand_ins:
            self.stand_ins[name] = stand_in
            self._pattern = None


def _machines(text: str) -> Iterator[str]:
    """Yield the names and addresses that *text* gives as those of machines."""
    yield from _found(text, _URL_HOST, _JAVA_HOST, _FIELD_HOST)
    yield from (name for name in _found(text, _SAID_HOST) if not _NO_HOST.fullmatch(name))
    yield from filter(_address, _found(text, _IPV4, _IPV6))


def _found(text: str, *patterns: re.Pattern[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for one in patterns for name in one.findall(text)))


def _address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _loopback(name: str) -> bool:
    if name.lower() in {"localhost", "localhost.localdomain", "ip6-localhost"}:
        return True
    try:
        found = ipaddress.ip_address(name)
    except ValueError:
        return False
    return found.is_loopback or found.is_unspecified


def people_and_machines(spec: ClusterSpec | None, environ: Mapping[str, str]) -> Pseudonyms:
    """Return the people and machines that this process, Hadoop and the spec name."""
    names = Pseudonyms()
    for host in (socket.getfqdn(), socket.gethostname()):
        names.host(host)
    names.user(environ.get("USER") or _user())
    home = Path(environ.get("HOME") or "/").name
    names.user(home)
    texts = list(_hadoop(environ))
    if spec is not None:
        for user in (*spec.admins.users, *spec.viewers.users):
            names.user(user)
        for proxy in spec.api.trusted_proxies:
            names.host(proxy.address.partition("/")[0])
        texts += _texts(unstructure(spec))
    for text in texts:
        for host in _hosts(text):
            names.host(host)
    return names


def _hadoop(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the values of Hadoop's configuration on this machine, which name its servers."""
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
