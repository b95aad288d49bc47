"""Why the size is what it is, as text for people. Pure, over ``GET /api/v1/scaling``."""

from collections.abc import Mapping
from typing import Any

from tarn.cluster.reported_issue import first_words
from tarn.cluster.table import columns, limits_words, moment

__all__ = ["decided", "explained", "read_off", "settings_words"]

SIGNAL_HEADS = ("SIGNAL", "VALUE", "UNIT", "AGE", "SOURCE", "WHY UNKNOWN")
DECISION_HEADS = ("DECIDED", "BY", "WANTED", "SIZE", "REASON", "HELD BACK BY")
_SMALL, _LARGE = 0.001, 100_000
STAR = "* read by the policy"

Answer = Mapping[str, Any]


def explained(answer: Answer) -> str:
    """Return the sentence, what bounds the size, the signals, and the last decisions."""
    stale = (
        "The master has stopped acting, and this is its last known state.\n"
        if answer["stale"]
        else ""
    )
    parts = [stale + answer["sentence"] + "\n" + settings_words(answer)]
    if answer["signals"]:
        parts.append(columns(SIGNAL_HEADS, map(read_off, answer["signals"])))
        if any(signal["read"] for signal in answer["signals"]):
            parts[-1] += f"\n{STAR}"
    if answer["decisions"]:
        parts.append(columns(DECISION_HEADS, map(decided, answer["decisions"])))
    return "\n\n".join(parts)


def settings_words(answer: Answer) -> str:
    """Return by which settings the size moves."""
    windows = answer["windows"]
    return (
        f"policy {answer['policy']}; {limits_words(answer)}; "
        f"looks back {windows['up_s']:g} s to grow, {windows['down_s']:g} s to shrink; "
        f"cooldown {answer['cooldown_s']:g} s"
    )


def read_off(signal: Answer) -> tuple[object, ...]:
    """Return one row: name (starred where the policy reads it), value, unit, age, source, why."""
    name = f"{signal['name']} *" if signal["read"] else signal["name"]
    why = first_words(signal["reason"])
    if signal["value"] is None:
        return (name, "unknown", "", "", signal["source"], why)
    age = f"{signal['age_s']:.1f} s"
    return (name, _number(signal["value"]), signal["unit"], age, signal["source"], why)


def decided(decision: Answer) -> tuple[object, ...]:
    """Return one row: when, by whom, wanted, desired, why, and what held the rest back."""
    return (
        moment(decision["at"]),
        decision["by"],
        decision["wanted"],
        decision["desired"],
        first_words(decision["reason"]),
        decision["held_back"],
    )


def _number(value: float) -> str:
    if value and not _SMALL <= abs(value) < _LARGE:
        return f"{value:.3g}"
    return f"{value:.3f}".rstrip("0").rstrip(".")
