"""What a bundle says of itself: what is in it, what is missing and why, what was masked. Pure."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

import attrs

from tarn.cluster.bundle.part import Part
from tarn.release import version

__all__ = ["MANIFEST", "README", "BundleManifest", "manifest", "readme"]

MANIFEST, README = "manifest.json", "README.txt"
FORMAT = 1
"""Of the manifest; it rises when a reader of an older one would be misled."""
_HEAD = """\
A support bundle of TARN {tarn}, made {made_at}, about {about}.

Look through it before you share it. Secrets were removed where TARN knew them, or where text
looked like one. {names}

manifest.json has the same for programs.
"""
_STOOD_IN = (
    "People and machines have stand-ins\n(user-1, host-2), the same in every file; "
    "names of models and of the cluster are kept."
)
_KEPT = "People and machines keep their names, as requested."


@attrs.frozen
class BundleManifest:
    """What a bundle is about, and how it was cleaned."""

    cluster: str
    """Its name, as it may be told; empty: none."""
    made_at: float
    """Unix seconds."""
    with_names: bool
    searched_for: Mapping[str, int]
    """Kind of secret to how many of it were known."""
    too_short: int
    """Of these, how many are so short that they are masked only where a name tells of them."""
    not_known: tuple[str, ...] = ()
    """Why secrets could not be known, a sentence each."""


def manifest(
    about: BundleManifest, parts: Sequence[Part], counts: Mapping[str, Mapping[str, int]]
) -> str:
    """Return the manifest as JSON; *counts* has what was taken out, by path."""
    plain = {
        "format": FORMAT,
        "tarn": version(),
        "made_at": datetime.fromtimestamp(about.made_at, UTC).isoformat(timespec="seconds"),
        "cluster": about.cluster or None,
        "names": "kept" if about.with_names else "stand-ins",
        "parts": [_row(part, counts.get(part.path, {})) for part in parts if not part.left_out],
        "left_out": [
            {"path": part.path, "what": part.what, "why": part.left_out}
            for part in parts
            if part.left_out
        ],
        "searched_for": {
            "secrets": dict(about.searched_for),
            "too_short": about.too_short,
            "not_known": list(about.not_known),
        },
    }
    return json.dumps(plain, indent=2, ensure_ascii=False) + "\n"


def _row(part: Part, redacted: Mapping[str, int]) -> Mapping[str, object]:
    row: dict[str, object] = {
        "path": part.path,
        "what": part.what,
        "bytes": len(part.text.encode("utf-8", "replace")),
    }
    if part.cut:
        row["cut"] = part.cut
    if redacted:
        row["redacted"] = dict(redacted)
    return row


def _by_reason(rows: Sequence[Mapping[str, str]]) -> Iterable[tuple[str, list[str]]]:
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row["why"], []).append(row["path"])
    return found.items()


def readme(told: str) -> str:
    """Return what people read first, from the manifest *told*."""
    plain = json.loads(told)
    head = _HEAD.format(
        tarn=plain["tarn"],
        made_at=plain["made_at"],
        about=f"cluster '{plain['cluster']}'" if plain["cluster"] else "no cluster",
        names=_STOOD_IN if plain["names"] == "stand-ins" else _KEPT,
    )
    lines = [head, "In it:"]
    lines += [
        f"  {row['path']}: {row['what']}" + (f" ({row['cut']})" if row.get("cut") else "")
        for row in plain["parts"]
    ]
    if plain["left_out"]:
        lines += ["", "Not in it:"]
        lines += [f"  {', '.join(paths)}: {why}" for why, paths in _by_reason(plain["left_out"])]
    lines += [f"  {one}" for one in plain["searched_for"]["not_known"]]
    return "\n".join(lines) + "\n"
