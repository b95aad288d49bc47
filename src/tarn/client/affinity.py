"""Which instance gets a request that belongs together with others: of a sequence, or by a rule."""

import threading
from collections import OrderedDict
from collections.abc import Mapping

import attrs

from tarn.client.pool import Affine, PoolMember
from tarn.domain.affinity import (
    SEQUENCE_HEADER,
    AffinityRule,
    affinity_key,
    rule_for,
    sequence_key,
)
from tarn.errors import UnreachableError
from tarn.interfaces import Clock

__all__ = ["AffinityRouter", "RequestKey", "sequence_headers"]

# Keys whose instance is remembered; beyond it, the oldest is forgotten.
MOST = 10_000
FOREVER_S = float("inf")
_LONGEST_HEADER = 256


@attrs.frozen
class RequestKey:
    """What a request has in common with those that must reach the same instance."""

    model: str
    key: bytes
    rule: AffinityRule | None = None
    """The rule that found it; None: it is the id of a sequence that the caller gave."""

    @property
    def kept_s(self) -> float:
        """How long the key keeps its instance after its last request."""
        return FOREVER_S if self.rule is None else self.rule.idle_s


@attrs.define
class _Home:
    member: PoolMember
    until_s: float
    lost: str = ""
    """Why its state is lost; empty: it is not."""


class AffinityRouter:
    """The rules, and the instances of keys. Thread-safe; does no I/O."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._homes: OrderedDict[RequestKey, _Home] = OrderedDict()
        self._rules: tuple[AffinityRule, ...] = ()

    def set_rules(self, rules: tuple[AffinityRule, ...], *, complete: bool) -> None:
        """Use *rules* from now on; incomplete ones replace none."""
        if complete or not self._rules:
            self._rules = rules

    def key_of(
        self, model: str, sequence: object, headers: Mapping[str, object], body: bytes
    ) -> RequestKey | None:
        """Return the key of an inference; None: any instance may get it."""
        own = sequence_key(sequence)
        if own is not None:
            return RequestKey(model, own)
        rule = rule_for(self._rules, model) if model else None
        if rule is None:
            return None
        texts = {name: str(value) for name, value in headers.items()}
        found = affinity_key(rule, texts, {}, body)
        return None if found is None else RequestKey(model, found, rule)

    def home(self, key: RequestKey) -> PoolMember | None:
        """Return the instance that had *key* last; None: none had, or long ago.

        Raises:
            UnreachableError: It held the state of a sequence, which is lost.
        """
        with self._lock:
            home = self._homes.get(key)
            if home is None or self._clock.now_s() >= home.until_s:
                self._homes.pop(key, None)
                return None
        if home.lost:
            raise self._lost(key, home)
        return home.member

    def settle(self, key: RequestKey, member: PoolMember) -> None:
        """Note that *member* got a request with *key*."""
        if not key.kept_s:
            return
        with self._lock:
            self._homes[key] = _Home(member, self._clock.now_s() + key.kept_s)
            self._homes.move_to_end(key)
            if len(self._homes) > MOST:
                self._homes.popitem(last=False)

    def forget(self, key: RequestKey) -> None:
        """Forget *key*: its sequence has ended, or begins again."""
        with self._lock:
            self._homes.pop(key, None)

    def lose(self, key: RequestKey, member: PoolMember, why: object) -> UnreachableError:
        """Note that *member* is gone with the state of *key*; return the error that says so.

        Later requests of the sequence get the same error, until it is begun again.
        """
        home = _Home(member, FOREVER_S, str(why) or type(why).__name__)
        with self._lock:
            self._homes[key] = home
        return self._lost(key, home)

    @staticmethod
    def _lost(key: RequestKey, home: _Home) -> UnreachableError:
        name = key.key.decode("utf-8", "replace")
        return UnreachableError(
            f"that instance held the state of sequence '{name}', which is lost ({home.lost})",
            where=home.member.target.name,
            next_step="Start the sequence again, with sequence_start=True",
        )


def affine(key: RequestKey, home: PoolMember | None) -> Affine:
    """Return what the pool needs to choose an instance for *key*, which *home* had last."""
    salted = key.model.encode("utf-8", "surrogatepass") + b"\0" + key.key
    return Affine(salted, home, 0 if key.rule is None else key.rule.imbalance)


def sequence_headers(sequence: object, headers: Mapping[str, object]) -> dict[str, object]:
    """Return *headers* with the id of the sequence, which a load balancer may read there."""
    own = dict(headers)
    key = sequence_key(sequence)
    text = "" if key is None else key.decode("utf-8", "replace")
    named = any(str(name).lower() == SEQUENCE_HEADER.lower() for name in own)
    fits = text.isascii() and text.isprintable() and text == text.strip()
    if text and fits and len(text) <= _LONGEST_HEADER and not named:
        own[SEQUENCE_HEADER.lower()] = text
    return own
