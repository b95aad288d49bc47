"""Names of people and machines, each replaced by the same stand-in wherever it is met. Pure."""

import ipaddress
import re
from collections.abc import Iterator
from typing import Final

import attrs

__all__ = ["Pseudonyms"]

HOST, ADDRESS, USER, REALM = "host", "address", "user", "realm"

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
"""Accounts that every installation has, and words that stand where a name could."""
_PUBLIC = ("apache.org", "github.com", "nvcr.io", "nvidia.com", "python.org", "prometheus.io")
"""Hosts that all the world knows: documentation, images."""
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
_NO_HOST = re.compile(
    r"(?:org|com|java|javax|io|sun|jdk|tarn|tarn_plugins)\..*"
    r"|.*\.(?:yaml|json|jsonl|py|log|txt|pbtxt|gz|zip|xml|so|jar|java|cc|h|keytab|conf|md|pem|onnx)"
)
"""What has dots and is none: a class of Java's, a module, a file."""
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
_WORD = r"[A-Za-z0-9]"
"""A name ends before an underscore: YARN writes ``node1.example.com_18041``."""


@attrs.define
class Pseudonyms:
    """Who is called how in one bundle: `learn` from every text first, then `replace` in each."""

    stand_ins: dict[str, str] = attrs.field(factory=dict, repr=False)
    """Name to stand-in, as told to whoever asks for the list."""
    _domains: set[str] = attrs.field(factory=set)
    _pattern: re.Pattern[str] | None = None

    def host(self, name: str) -> None:
        """Remember a machine; its short name is the same machine."""
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
        """Remember a person."""
        self._add(USER, name)

    def realm(self, name: str) -> None:
        """Remember a Kerberos realm, or the domain of a mail address."""
        self._add(REALM, name)

    def learn(self, text: str) -> None:
        """Find names where *text* says that they are such."""
        for name in _machines(text):
            self.host(name)
        for user, host, realm in dict.fromkeys(_PRINCIPAL.findall(text)):
            self.user(user)
            self.host(host)
            self.realm(realm)
        for name in _found(text, _FOLDER, _FIELD_USER):
            self.user(name)
        for domain in tuple(self._domains):  # who lives next to a known machine is one, too
            beside = re.compile(
                rf"(?<![A-Za-z0-9.\-])((?:{_LABEL}\.)+{re.escape(domain)})(?!{_WORD})"
            )
            for name in _found(text, beside):
                self.host(name)

    def replace(self, text: str) -> str:
        """Return *text* with every name that was learnt replaced."""
        if not self.stand_ins:
            return text
        if self._pattern is None:
            known = sorted(self.stand_ins, key=lambda name: (-len(name), name))
            longest_first = "|".join(map(re.escape, known))
            self._pattern = re.compile(f"(?<!{_WORD})(?:{longest_first})(?!{_WORD})")
        return self._pattern.sub(lambda found: self.stand_ins[found[0]], text)

    def _add(self, kind: str, name: str) -> str:
        if len(name) < _SHORTEST or name.lower() in _NOBODY or _is_stand_in(name):
            return ""
        if name not in self.stand_ins:
            count = sum(1 for one in set(self.stand_ins.values()) if one.startswith(f"{kind}-"))
            self._alias(name, f"{kind}-{count + 1}")
        return self.stand_ins[name]

    def _alias(self, name: str, stand_in: str) -> None:
        if len(name) >= _SHORTEST and name.lower() not in _NOBODY and name not in self.stand_ins:
            self.stand_ins[name] = stand_in
            self._pattern = None


_STAND_IN: Final = re.compile(rf"(?:{HOST}|{ADDRESS}|{USER}|{REALM})-\d+")


def _machines(text: str) -> Iterator[str]:
    """Yield the names and addresses that *text* gives as those of machines."""
    yield from _found(text, _URL_HOST, _JAVA_HOST, _FIELD_HOST)
    yield from (name for name in _found(text, _SAID_HOST) if not _NO_HOST.fullmatch(name))
    yield from filter(_address, _found(text, _IPV4, _IPV6))


def _found(text: str, *patterns: re.Pattern[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for one in patterns for name in one.findall(text)))


def _is_stand_in(name: str) -> bool:
    return bool(_STAND_IN.fullmatch(name))


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
