"""What is wrong with a ``haproxy.cfg`` that asks the master whether requests may pass. Pure.

A file that asks nowhere is left alone: it is another decision. In one that asks, every way to an
instance must ask, by the rules of `tarn lb haproxy config --authz` in their order, and the way to
the master must be short and its own.
"""

import re
from collections.abc import Iterator

from tarn_plugins.discovery.haproxy.authz import GATE_VARIABLE, MASTER_BACKEND, TOKEN_VARIABLE
from tarn_plugins.discovery.haproxy.cfg_lines import ConfigLine, Said, Section

__all__ = ["examine"]

_IDENTIFY, _AUTHORIZE = "lua.tarn_identify", "lua.tarn_authorize"
_UNITS_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_LONGEST_S = 2.0
"""What a limit of the way to the master may be; the rendered ones are shorter."""
_SECRETS = ("x-tarn-token", "x-tarn-gate")


def examine(parts: tuple[Section, ...], ours: frozenset[str]) -> Iterator[Said]:
    """Yield what is wrong, where *parts* ask at all.

    Args:
        parts: All sections of the file.
        ours: Names of those that hold instances of Triton.
    """
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
    """Return which of the section's ``http-request`` rules calls *action*, whatever it is about."""
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
    """Say whether it denies everything but what was allowed."""
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
    removed = [at for at, one in enumerate(rules) if _removes_claims(one)]
    if not removed:
        yield "TARN-3339", section.number, f"{of} passes on X-TARN- headers of clients"
    elif names is not None and not names < removed[0] < asks:
        text = f"{of} does not remove X-TARN- headers between the two Lua rules"
        yield "TARN-3339", rules[removed[0]].number, text


def _removes_claims(line: ConfigLine) -> bool:
    words = tuple(word.lower() for word in line.words)
    return words == ("http-request", "del-header", "x-tarn-", "-m", "beg")


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
    """Return which secret header is set or compared to something that stands in the line."""
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
