"""Find what is wrong with a ``haproxy.cfg`` in front of a fleet. Pure.

A value that comes from an environment variable is not known here, so it is never reported.

A file without authorization is not reported: that is the operator's decision. If one frontend
authorizes its requests, every frontend that leads to an instance must do so, by the rules of `tarn
lb haproxy config --authz` in their order. The frontend and backend that lead to the master must
have short time limits and serve nothing else.
"""

# The facts are of HAProxy's configuration manual, 2.6: sections, quoting (2.2), `defaults` (4),
# `stats socket` (3.1), `retry-on` and `option redispatch` (4.2).

import re
import shlex
from collections.abc import Iterable, Iterator

import attrs

from tarn.domain import CODES, Severity
from tarn.interfaces import Finding
from tarn_plugins.discovery.haproxy.affinity_text import KEYED_SUFFIX
from tarn_plugins.discovery.haproxy.authz import GATE_VARIABLE, MASTER_BACKEND, TOKEN_VARIABLE

__all__ = ["examine"]

_SECTION = re.compile(
    r"global|defaults|frontend|backend|listen|peers|resolvers|userlist|mailers|program|cache"
    r"|http-errors|ring|log-forward|fcgi-app"
)
Said = tuple[str, int, str]
"""(code, line, what was found)"""


@attrs.frozen
class ConfigLine:
    """One line with a directive."""

    number: int
    words: tuple[str, ...]

    def starts(self, *words: str) -> bool:
        """Return whether the line begins with *words*."""
        return self.words[: len(words)] == words

    def after(self, word: str) -> str:
        """Return the word that follows *word*; '' if there is none."""
        at = self.words.index(word) + 1 if word in self.words else len(self.words)
        return self.words[at] if at < len(self.words) else ""


@attrs.frozen
class Section:
    """A section; its lines begin with those that it inherits from ``defaults``."""

    kind: str
    name: str
    number: int
    lines: tuple[ConfigLine, ...]

    def last(self, *words: str) -> ConfigLine | None:
        """Return the last line that begins with *words*; None if it is negated by ``no``."""
        found = [one for one in self.lines if one.starts(*words) or one.starts("no", *words)]
        return found[-1] if found and found[-1].words[0] != "no" else None


def sections(text: str) -> Iterator[Section]:
    """Yield the sections; each inherits the latest ``defaults``, or those that it names."""
    named: dict[str, tuple[ConfigLine, ...]] = {}
    latest: tuple[ConfigLine, ...] = ()
    for head, body in _bodies(text):
        kind, name = head.words[0], head.words[1] if len(head.words) > 1 else ""
        given = named.get(head.after("from"), latest)
        if kind == "defaults":
            latest = (*(given if "from" in head.words else ()), *body)
            named[name] = latest
        inherits = kind in ("frontend", "backend", "listen")
        yield Section(kind, name, head.number, (*given, *body) if inherits else body)


def _bodies(text: str) -> Iterator[tuple[ConfigLine, tuple[ConfigLine, ...]]]:
    head: ConfigLine | None = None
    body: list[ConfigLine] = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            words = tuple(shlex.split(line, comments=True))
        except ValueError:  # a quote without its end: HAProxy refuses the file itself
            words = tuple(line.split())
        if not words or words[0].startswith("."):  # `.if` and other conditions
            continue
        if not _SECTION.fullmatch(words[0]):
            body.append(ConfigLine(number, words))
            continue
        if head is not None:
            yield head, tuple(body)
        head, body = ConfigLine(number, words), []
    if head is not None:
        yield head, tuple(body)


_READY = "/v2/health/ready"
# Words of `retry-on` that repeat a request which an instance may have executed. Status codes do so
# as well.
_TWICE = {
    "all-retryable-errors",
    "empty-response",
    "junk-response",
    "response-timeout",
}
_EVERYBODY = 0o002  # the bit of a file mode that lets every user write
_SERVING = ("backend", "listen")


def examine(name: str, data: bytes) -> Iterable[Finding]:
    """Return the problems of the configuration *data*, in the order of its lines.

    Args:
        name: The file's name, for ``Finding.where``.
        data: The file's content; nothing else is read.
    """
    if b"\0" in data:
        return [_finding(name, ("TARN-3607", 1, "is not text"))]
    parts = tuple(sections(data.decode("utf-8", "replace")))
    if not parts:
        return [_finding(name, ("TARN-3607", 1, "has no section such as 'backend NAME'"))]
    ours = frozenset(one.name for one in parts if one.kind in _SERVING and _is_ours(one))
    said = [*_sockets(parts), *_backends(parts), *_authorization(parts, ours)]
    said += [*_lua(parts), *_affinity(parts, ours)]
    return [_finding(name, one) for one in sorted(said, key=lambda one: one[1])]


def _finding(name: str, said: Said) -> Finding:
    code, number, text = said
    row = CODES[code]
    return Finding(code, f"{name}:{number}", text, row.next_step, row.severity is Severity.ALERT)


# -- the rules


def _sockets(parts: tuple[Section, ...]) -> Iterator[Said]:
    """Check that the Runtime API exists, may change servers, and is not open to every user."""
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
    """Return which users the socket is wrongly open to; '' if there are none."""
    place, mode = line.words[2] if len(line.words) > 2 else "", line.after("mode")  # noqa: PLR2004
    if not place.startswith(("/", "unix@", "abns@", "fd@", "sockpair@", "$", '"')):
        host = re.sub(r"^(ipv4|ipv6|tcp4?6?)@", "", place).rpartition(":")[0].strip("[]")
        own = host in ("::1", "localhost") or host.startswith(("127.", "$"))
        return "" if own else f"everybody who reaches {place}"
    everybody = re.fullmatch(r"0?[0-7]{3}", mode) and int(mode, 8) & _EVERYBODY
    return f"every user of the machine (mode {mode})" if everybody else ""


def _is_ours(section: Section) -> bool:
    """Return whether *section* seems to hold instances of Triton."""
    asked = any("/v2/" in word for line in section.lines for word in line.words)
    return "triton" in section.name.lower() or (asked and section.kind == "backend")


def _backends(parts: tuple[Section, ...]) -> Iterator[Said]:
    ours = [one for one in parts if one.kind in _SERVING and _is_ours(one)]
    if not ours:
        names = ", ".join(one.name for one in parts if one.kind in _SERVING)
        found = f"has no backend that looks like one for Triton (it has: {names or 'none'})"
        yield "TARN-3610", 1, f"{found}: neither 'triton' in its name nor a check of {_READY}"
    for section in ours:
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


_IDENTIFY, _AUTHORIZE = "lua.tarn_identify", "lua.tarn_authorize"
_UNITS_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_LONGEST_S = 2.0  # a user waits for the master's answer; the rendered limits are 0.5 s and less
_SECRETS = ("x-tarn-token", "x-tarn-gate")


def _authorization(parts: tuple[Section, ...], ours: frozenset[str]) -> Iterator[Said]:
    """Check the authorization of a file that has some; *ours* are the backends with Tritons."""
    yield from _secrets(parts)
    if not any(_at(section, _AUTHORIZE) for section in parts):
        return
    for section in parts:
        if section.kind in ("frontend", "listen") and _leads_to(section, ours):
            yield from _door(section)
    for section in parts:
        if section.kind == "backend" and section.name == MASTER_BACKEND:
            yield from _limits(section)
        if section.kind in ("frontend", "listen") and _leads_to(section, {MASTER_BACKEND}):
            yield from _open(section)


def _rules(section: Section) -> list[ConfigLine]:
    return [line for line in section.lines if line.starts("http-request")]


def _at(section: Section, action: str) -> int | None:
    """Return the index of the first ``http-request`` rule that calls *action*."""
    found = (at for at, line in enumerate(_rules(section)) if action in line.words[1:2])
    return next(found, None)


def _leads_to(section: Section, names: "frozenset[str] | set[str]") -> bool:
    if section.kind == "listen" and section.name in names:
        return True
    targets = [
        line.words[1]
        for line in section.lines
        if line.starts("default_backend") or line.starts("use_backend")
        if len(line.words) > 1
    ]
    return any(name in names or name.startswith("%[") for name in targets)


# -- the doors


def _door(section: Section) -> Iterator[Said]:
    of, rules = f"{section.kind} '{section.name}'", _rules(section)
    asks = _at(section, _AUTHORIZE)
    if asks is None:
        yield "TARN-3338", section.number, f"{of} leads to Triton and does not ask"
        return
    obeyed = next((at for at, one in enumerate(rules) if at > asks and _obeys(one)), None)
    if obeyed is None:
        text = f"{of} asks, but lets requests pass whatever the answer is"
        yield "TARN-3338", rules[asks].number, text
    until = len(rules) if obeyed is None else obeyed
    for line in rules[:until]:
        if line.starts("http-request", "allow"):
            yield "TARN-3338", line.number, f"{of} lets requests pass before it applies the answer"
    if len(rules[asks].words) > 3:  # noqa: PLR2004 (the action and its door)
        yield "TARN-3338", rules[asks].number, f"{of} asks only under a condition"
    yield from _claims(section, asks)


def _obeys(line: ConfigLine) -> bool:
    """Return whether the rule denies every request that was not allowed."""
    words = line.words
    if not line.starts("http-request", "deny") or "unless" not in words:
        return False
    condition = words[words.index("unless") + 1 :]
    return condition == ("allowed",) or (
        condition[:1] + condition[-1:] == ("{", "}")
        and (
            "var(txn.tarn_verdict)" in condition and "allow" in condition and "||" not in condition
        )
    )


def _claims(section: Section, asks: int) -> Iterator[Said]:
    of, rules = f"{section.kind} '{section.name}'", _rules(section)
    names = _at(section, _IDENTIFY)
    if names is None or names > asks:
        text = f"{of} asks before it knows the user"
        yield "TARN-3338", rules[asks].number, text
    removes = ("http-request", "del-header", "x-tarn-", "-m", "beg")
    lowered = [tuple(word.lower() for word in one.words) for one in rules]
    removed = [at for at, words in enumerate(lowered) if words == removes]
    if not removed:
        yield "TARN-3339", section.number, f"{of} passes on X-TARN- headers of clients"
    elif names is not None and not names < removed[0] < asks:
        text = f"{of} does not remove X-TARN- headers between the two Lua rules"
        yield "TARN-3339", rules[removed[0]].number, text


# -- the way to the master


def _limits(section: Section) -> Iterator[Said]:
    of = f"backend '{section.name}'"
    for name in ("connect", "server", "queue"):
        line = section.last("timeout", name)
        limit_s = _seconds(line.words[2]) if line is not None and len(line.words) > 2 else None  # noqa: PLR2004
        if limit_s is None or limit_s > _LONGEST_S:
            number = section.number if line is None else line.number
            shown = "no" if limit_s is None else f"{limit_s:g} s as"
            yield "TARN-3340", number, f"{of} has {shown} 'timeout {name}'"
    if section.last("http-response", "wait-for-body") is None:
        text = (
            f"{of} has no 'http-response wait-for-body time': an answer may arrive byte by byte "
            "without end"
        )
        yield "TARN-3340", section.number, text


def _seconds(text: str) -> float | None:
    found = re.fullmatch(r"([0-9]+)(us|ms|s|m|h|d)?", text)
    return None if found is None else int(found[1]) * _UNITS_S[found[2] or "ms"]


def _open(section: Section) -> Iterator[Said]:
    for line in section.lines:
        if not line.starts("bind") or len(line.words) < 2:  # noqa: PLR2004
            continue
        for place in line.words[1].split(","):
            host = re.sub(r"^(ipv4|ipv6)@", "", place).rpartition(":")[0].strip("[]")
            own = place.startswith(("/", "unix@", "$")) or host in ("::1", "localhost")
            if not own and not host.startswith("127."):
                yield "TARN-3341", line.number, f"frontend '{section.name}' listens at {place}"


# -- what belongs together

_BEGIN, _KEY = "lua.tarn_begin", "lua.tarn_key"
_ANY = "http-request"


def _lua(parts: tuple[Section, ...]) -> Iterator[Said]:
    lines = [line for one in parts if one.kind == "global" for line in one.lines]
    for_each = [line for line in lines if line.starts("lua-load-per-thread")]
    if for_each and any(line.starts("lua-load") for line in lines):
        yield "TARN-3617", for_each[0].number, "one file is loaded by lua-load, another per thread"


def _affinity(parts: tuple[Section, ...], ours: frozenset[str]) -> Iterator[Said]:
    """Check the lines that keep sequences together, in a file that has some of them."""
    if not any(_at(section, _BEGIN) is not None for section in parts):
        return
    for section in parts:
        if section.kind in ("frontend", "listen") and _leads_to(section, ours):
            yield from _finds_keys(section, {one.name for one in parts})
        if section.kind == "backend" and section.name.endswith(KEYED_SUFFIX):
            yield from _keeps(section)


def _finds_keys(section: Section, names: set[str]) -> Iterator[Said]:
    of, begins = f"{section.kind} '{section.name}'", _at(section, _BEGIN)
    if begins is None or _at(section, _KEY) is None:
        yield "TARN-3616", section.number, f"{of} does not look for the key of a request"
        return
    rules = _rules(section)
    if not any(_refuses(line) for line in rules):
        yield "TARN-3616", section.number, f"{of} passes on requests whose sequence it cannot read"
    deleted = (at for at, line in enumerate(rules) if line.starts(_ANY, "del-header"))
    if next(deleted, begins) < begins:
        text = f"{of} removes headers before it looks for the key in them"
        yield "TARN-3616", rules[begins].number, text
    keyed = [line for line in section.lines if line.starts("use_backend")]
    if not any(line.words[1].endswith(KEYED_SUFFIX) for line in keyed if line.words[1] in names):
        yield "TARN-3616", section.number, f"{of} sends requests with a key to no backend of theirs"


def _refuses(line: ConfigLine) -> bool:
    return line.starts(_ANY, "return") and "var(txn.tarn_refusal)" in line.words


def _keeps(section: Section) -> Iterator[Said]:
    of, hashed = f"backend '{section.name}'", section.last("balance", "hash")
    if hashed is None or section.last("hash-type", "consistent") is None:
        yield "TARN-3616", section.number, f"{of} does not balance by a consistent hash of the key"
    if section.last("stick", "on") is None:
        text = f"{of} does not remember which instance has a sequence"
        yield "TARN-3616", section.number, text


# -- secrets


def _secrets(parts: tuple[Section, ...]) -> Iterator[Said]:
    lines = {line.number: line for section in parts for line in section.lines}
    for number, line in lines.items():
        if line.words[0] in ("setenv", "presetenv"):
            name = line.words[1] if len(line.words) > 1 else ""
            if name in (TOKEN_VARIABLE, GATE_VARIABLE):
                yield "TARN-3342", number, f"{name} is set in the file"
        elif header := _told(line):
            yield "TARN-3342", number, f"the value of {header} is in the file"


def _told(line: ConfigLine) -> str:
    """Return the secret header that the line sets to, or compares with, a literal value."""
    words = line.words
    if line.starts("http-request", "set-header") and len(words) > 3:  # noqa: PLR2004
        literal = words[2].lower() in _SECRETS and not words[3].startswith(("%[", "$"))
        return words[2] if literal else ""
    for at, word in enumerate(words[:-1]):
        asked = re.search(r"hdr\((x-tarn-(?:token|gate))\)", word.lower())
        rest = [one for one in words[at + 1 :] if one not in ("-m", "str", "-i", "}", "--")]
        if asked and rest and rest[0] not in ("found", "beg") and not rest[0].startswith("$"):
            return asked[1]
    return ""
