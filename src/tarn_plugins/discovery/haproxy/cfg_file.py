"""What is wrong with a ``haproxy.cfg`` in front of a fleet. Pure.

Facts are of HAProxy's configuration manual, 2.6: sections, quoting (2.2), ``defaults`` (4),
``stats socket`` (3.1), ``retry-on`` and ``option redispatch`` (4.2). A value that stands in a
variable of the environment is not known here, and nothing is said of it.
"""

import re
from collections.abc import Iterable, Iterator

from tarn.domain import CODES, Severity
from tarn.interfaces import Finding
from tarn_plugins.discovery.haproxy import cfg_authz
from tarn_plugins.discovery.haproxy.cfg_lines import ConfigLine, Said, Section, sections

__all__ = ["examine"]

_READY = "/v2/health/ready"
_TWICE = {
    "all-retryable-errors",
    "empty-response",
    "junk-response",
    "response-timeout",
}
"""Words of ``retry-on`` after which a request that was sent is sent again; status codes, too."""
_EVERYBODY = 0o002
_SERVING = ("backend", "listen")


def examine(name: str, data: bytes) -> Iterable[Finding]:
    """Return what is wrong with the configuration *data*, in the order of its lines.

    Args:
        name: The file's, for ``Finding.where``.
        data: The file's content; nothing else is read.
    """
    if b"\0" in data:
        return [_finding(name, ("TARN-3607", 1, "is not text"))]
    parts = tuple(sections(data.decode("utf-8", "replace")))
    if not parts:
        return [_finding(name, ("TARN-3607", 1, "has no section such as 'backend NAME'"))]
    ours = frozenset(one.name for one in parts if one.kind in _SERVING and _is_ours(one))
    said = [*_sockets(parts), *_backends(parts), *cfg_authz.examine(parts, ours)]
    return [_finding(name, one) for one in sorted(said, key=lambda one: one[1])]


def _finding(name: str, said: Said) -> Finding:
    code, number, text = said
    row = CODES[code]
    return Finding(code, f"{name}:{number}", text, row.next_step, row.severity is Severity.ALERT)


# -- the rules


def _sockets(parts: tuple[Section, ...]) -> Iterator[Said]:
    """The Runtime API: it must be there, be told everything, and by nobody else."""
    lines = [line for one in parts if one.kind == "global" for line in one.lines]
    sockets = [line for line in lines if line.starts("stats", "socket")]
    if not sockets:
        at = next((one.number for one in parts if one.kind == "global"), 1)
        yield "TARN-3608", at, "has no 'stats socket', so TARN cannot tell it about instances"
    elif not any(line.after("level") == "admin" for line in sockets):
        levels = ", ".join(sorted({line.after("level") or "operator" for line in sockets}))
        found = f"the socket has the level {levels}, which may not change servers"
        yield "TARN-3307", sockets[0].number, found
    for line in sockets:
        if line.after("level") == "admin" and (why := _open_to(line)):
            yield "TARN-3609", line.number, f"the socket with the level admin is open to {why}"


def _open_to(line: ConfigLine) -> str:
    """Return to whom a socket is open who should not be; empty where it is well."""
    place, mode = line.words[2] if len(line.words) > 2 else "", line.after("mode")  # noqa: PLR2004
    if not place.startswith(("/", "unix@", "abns@", "fd@", "sockpair@", "$", '"')):
        host = re.sub(r"^(ipv4|ipv6|tcp4?6?)@", "", place).rpartition(":")[0].strip("[]")
        own = host in ("::1", "localhost") or host.startswith(("127.", "$"))
        return "" if own else f"everybody who reaches {place}"
    everybody = re.fullmatch(r"0?[0-7]{3}", mode) and int(mode, 8) & _EVERYBODY
    return f"every user of the machine (mode {mode})" if everybody else ""


def _backends(parts: tuple[Section, ...]) -> Iterator[Said]:
    ours = [one for one in parts if one.kind in _SERVING and _is_ours(one)]
    if not ours:
        names = ", ".join(one.name for one in parts if one.kind in _SERVING)
        found = f"has no backend that looks like one for Triton (it has: {names or 'none'})"
        yield "TARN-3610", 1, f"{found}: neither 'triton' in its name nor a check of {_READY}"
    for one in ours:
        yield from _backend(one)


def _is_ours(section: Section) -> bool:
    """Say whether instances of Triton are meant there."""
    asked = any("/v2/" in word for line in section.lines for word in line.words)
    return "triton" in section.name.lower() or (asked and section.kind == "backend")


def _backend(section: Section) -> Iterator[Said]:
    of = f"backend '{section.name}'"
    if section.last("option", "httpchk") is None:
        yield "TARN-3611", section.number, f"{of} has no 'option httpchk'"
    if section.last("option", "redispatch") is None:
        yield "TARN-3612", section.number, f"{of} has no 'option redispatch'"
    again = section.last("retry-on")
    words = again.words[1:] if again is not None else ()
    twice = [word for word in words if word in _TWICE or word.isdigit()]
    if again is not None and twice:
        yield "TARN-3613", again.number, f"{of} sends again after {', '.join(twice)}"
