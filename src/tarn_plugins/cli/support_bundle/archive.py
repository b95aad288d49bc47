"""A bundle's manifest, its README, and its file, which is written whole or not at all."""

import contextlib
import gzip
import io
import json
import os
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

import attrs

from tarn.errors import RefusedError, TarnError
from tarn.release import version
from tarn_plugins.cli.support_bundle.parts import Part

__all__ = ["MANIFEST", "README", "BundleManifest", "manifest", "readme", "write"]

MANIFEST, README = "manifest.json", "README.txt"
# The manifest's version; it rises when a program that reads the older one would be misled.
FORMAT = 1
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
_MODE = 0o600


@attrs.frozen
class BundleManifest:
    """The subject of a bundle, and how it was cleaned."""

    cluster: str
    """The cluster's name, without secrets; empty: there is none."""
    made_at: float
    """Unix seconds."""
    with_names: bool
    searched_for: Mapping[str, int]
    """Kind of secret to the number that was searched for."""
    too_short: int
    """The number of these that are too short: they are masked only next to a telling name."""
    not_known: tuple[str, ...] = ()
    """Reasons why some secrets are not known, a sentence each."""


def manifest(
    about: BundleManifest, parts: Sequence[Part], counts: Mapping[str, Mapping[str, int]]
) -> str:
    """Return the manifest as JSON; *counts* has the numbers of removed secrets by path."""
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


def readme(told: str) -> str:
    """Return the README, made from the manifest *told*."""
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
        missing: dict[str, list[str]] = {}
        for row in plain["left_out"]:
            missing.setdefault(row["why"], []).append(row["path"])
        lines += ["", "Not in it:"]
        lines += [f"  {', '.join(paths)}: {why}" for why, paths in missing.items()]
    lines += [f"  {one}" for one in plain["searched_for"]["not_known"]]
    return "\n".join(lines) + "\n"


def write(path: Path, folder: str, files: Mapping[str, str], at: float) -> int:
    """Write *files* as ``<folder>/<name>`` into a .tar.gz at *path*; return its size.

    Only the owner can read it, its headers name no user or machine, and a failure leaves no file
    behind.

    Args:
        path: The new file.
        folder: The only folder in it.
        files: Name to text.
        at: Time of every member, Unix seconds.

    Raises:
        RefusedError: The file exists (TARN-3842).
        TarnError: It cannot be written (TARN-3841).
    """
    if path.exists() or path.is_symlink():
        raise _there(path)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with _private(part) as file:
            _fill(file, folder, files, at)
        os.link(part, path)  # unlike a rename, it never replaces a file that was made meanwhile
        return path.stat().st_size
    except FileExistsError as error:
        raise _there(path) from error
    except OSError as error:
        raise TarnError(
            f"cannot be written ({error.strerror})",
            code="TARN-3841",
            where=str(path),
            next_step="With -o, name a file in a folder that you may write to, on a disk with free "
            "space",
        ) from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def _there(path: Path) -> RefusedError:
    return RefusedError(
        "the file already exists, and a bundle does not replace a file",
        code="TARN-3842",
        where=str(path),
        next_step="Name another one with -o",
    )


@contextlib.contextmanager
def _private(path: Path) -> Iterator[IO[bytes]]:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, _MODE), "wb") as file:
        yield file


def _fill(file: IO[bytes], folder: str, files: Mapping[str, str], at: float) -> None:
    with (
        gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=int(at)) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name, text in files.items():
            data = text.encode("utf-8", "replace")
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size, member.mtime, member.mode = len(data), int(at), _MODE
            tar.addfile(member, io.BytesIO(data))
