"""Tell HAProxy which requests belong together, and read what it remembers of them. Pure.

The master's rules become variables of HAProxy, which `tarn_door.lua` reads. HAProxy remembers in a
stick table which server has which sequence.
"""

import binascii
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

__all__ = [
    "AFFINITY_VARIABLE",
    "BOUNDED_SUFFIX",
    "EXPIRE_S",
    "FILLED_VARIABLE",
    "HELD_TABLE",
    "KEYED_SUFFIX",
    "KEY_TABLE",
    "NO_RULES",
    "HaproxyRules",
    "held_in",
    "live_entries",
    "models_named",
    "server_number",
]

AFFINITY_VARIABLE = "proc.tarn_affinity"
NO_RULES = "00000000.0"
"""What it says where the master wants none: HAProxy then runs no Lua."""
FILLED_VARIABLE = "proc.tarn_filled"
KEY_TABLE = "tarn_sequences"
"""The backend whose stick table says which server has which sequence."""
HELD_TABLE = "tarn_held"
"""The backend whose stick table counts the requests that wait for a server."""
KEYED_SUFFIX = "_keyed"
"""What the name of the backend for requests with a key adds to that for all others."""
BOUNDED_SUFFIX = "_bounded"
"""The same for the backend of those whose instance may get no more than so much of the load."""
EXPIRE_S = 3600
"""How long HAProxy remembers an entry after its last request."""
UNTOLD_IDLE_S = 60.0
"""How long a sequence lives without a request where no master says it."""

_PART = 4000  # characters of one variable; a line of the Runtime API may have some 16,000
_MOST_PARTS = 64  # as in tarn_door.lua
_READABLE = "readable:::0:1:"  # keep a sequence where it can be read, and refuse nothing
# How a key finds its server: by a hash; it is remembered, too; by a hash, unless that server has
# too much in hand.
_HASHED, _STICKS, _BOUNDED = "0", "1", "2"
_LETTERS = {"sequence": "s", "header": "h", "json": "j", "body": "b"}
_ENTRY = re.compile(r"\bkey=(\S+) use=(\d+) exp=(\d+)(?: shard=\d+)?(.*)")
_FIELD = re.compile(r"\b(server_id|gpt0)=(\d+)")
_HELD = re.compile(r"\bconn_cur=(\d+)")
# Server ids of one fleet are in a range of its own, chosen by its name: two fleets may share a
# backend. HAProxy takes at most 2**31 - 1.
_RANGE, _RANGES = 1_000_000, 2_000


@attrs.frozen
class HaproxyRules:
    """The rules of a master, as HAProxy gets them."""

    text: str = ""
    known: bool = False
    """False: the master tells no rules, so HAProxy only follows what it can read itself."""
    idle_s: Mapping[str, float] = attrs.field(factory=dict)
    """First letter of an entry's key to the seconds for which it lives after its last request."""
    sequences: tuple[str, ...] = ()
    """The models with sequences; ``*`` stands for every model."""
    imbalance: int = 0
    """The lowest bound that a rule sets on an instance's load, in percent of the mean; 0: none."""

    @classmethod
    def read(cls, answer: Mapping[str, Any] | None) -> "HaproxyRules":
        """Return the rules in the answer of ``GET /affinity``; None: the master has none.

        Raises:
            ValueError: A rule is not one, or they are too many; also KeyError, TypeError.
        """
        if answer is None:
            return cls()
        rows: Sequence[Mapping[str, Any]] = answer["rules"]
        texts, idle_s, sequences = [], dict[str, float](), list[str]()
        bounds = set[int]()
        for row in rows:
            key, models = str(row["key"]), [str(name) for name in row.get("models") or ()]
            if key not in _LETTERS:
                raise ValueError(f"'{key}' is not a known kind of key")
            lasts_s = float(row.get("idle_s") or 0)
            if lasts_s > 0:
                letter = _LETTERS[key]
                idle_s[letter] = max(lasts_s, idle_s.get(letter, 0.0))
            if key == "sequence":
                sequences += models or ["*"]
            header, path = str(row.get("header") or ""), str(row.get("path") or "")
            first = int(row.get("first_bytes") or 0)
            bound = 0 if lasts_s > 0 else int(row.get("imbalance") or 0)
            bounds |= {bound} - {0}
            kept = _STICKS if lasts_s > 0 else _BOUNDED if bound else _HASHED
            words = [key, _escaped(header), _escaped(path), str(first), kept]
            texts.append(":".join([*words, "+".join(map(_escaped, models))]))
        if answer.get("complete") is False:  # of some models the master does not know it yet
            texts.append(_READABLE)
            idle_s.setdefault("s", UNTOLD_IDLE_S)
        text = "/".join(texts)
        if len(text) > _PART * _MOST_PARTS:
            raise ValueError(f"{len(text)} characters of rules are more than HAProxy is given")
        lowest = min(bounds, default=0)
        return cls(text, known=True, idle_s=idle_s, sequences=tuple(sequences), imbalance=lowest)

    @property
    def rests_s(self) -> Mapping[str, float]:
        """First letter of a key to the seconds without a request after which its entry is over."""
        return self.idle_s if self.known else {"s": UNTOLD_IDLE_S}

    @property
    def head(self) -> str:
        """What `AFFINITY_VARIABLE` says: a checksum and the number of parts."""
        if not self.known:
            return "none"
        return f"{binascii.crc32(self.text.encode()):08x}.{len(self._parts)}"

    @property
    def _parts(self) -> list[str]:
        return [self.text[at : at + _PART] for at in range(0, len(self.text), _PART)]

    @property
    def commands(self) -> list[str]:
        """The commands that tell HAProxy; the head comes last, when all parts are there."""
        parts = self._parts if self.known else []
        named = [f"{AFFINITY_VARIABLE}.{at} str({part})" for at, part in enumerate(parts)]
        return [f"set var {one}" for one in (*named, f"{AFFINITY_VARIABLE} str({self.head})")]


def _escaped(text: str) -> str:
    """Return *text* with every byte that a separator could be as ``~`` and its code."""
    return "".join(
        chr(byte) if (chr(byte).isalnum() and byte < 128) or byte in b"_.-" else f"~{byte:02x}"  # noqa: PLR2004 (ASCII)
        for byte in text.encode("utf-8", "surrogatepass")
    )


def server_number(instance_id: str) -> int:
    """Return the server id of an instance: never given to another one of its fleet."""
    name, _, number = instance_id.rpartition("-")
    shelf = 1 + binascii.crc32(name.encode()) % _RANGES
    return shelf * _RANGE + int(number) % _RANGE if number.isdecimal() else 0


def live_entries(answer: str, idle_s: Mapping[str, float]) -> dict[int, int]:
    """Return server id to live entries in an answer to ``show table``.

    An entry lives until its sequence ended, or had no request for as long as its kind may rest.
    """
    found: dict[int, int] = {}
    for line in answer.splitlines():
        entry = _ENTRY.search(line)
        if entry is None:
            continue
        key, use, left_ms = entry[1], int(entry[2]), int(entry[3])
        of = dict(_FIELD.findall(entry[4]))
        rests_s = EXPIRE_S - left_ms / 1000
        over = of.get("gpt0") == "1" or rests_s >= idle_s.get(key[:1], 0.0)
        if "server_id" in of and (use or not over):
            number = int(of["server_id"])
            found[number] = found.get(number, 0) + 1
    return found


def held_in(answer: str) -> int:
    """Return how many requests wait, by an answer to ``show table``; 0: it has no such table."""
    return sum(map(int, _HELD.findall(answer)))


def models_named(rules: HaproxyRules, most: int = 3) -> str:
    """Return the models with sequences, for a sentence."""
    names: Iterable[str] = rules.sequences[:most]
    more = len(rules.sequences) - most
    return ", ".join(names) + (f" and {more} more" if more > 0 else "")
