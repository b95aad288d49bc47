"""Where a Prometheus scrapes a cluster, in files that it watches (``file_sd_configs``).

A file is written again when the master moved or instances came and went. While no master answers it
stays as it is: what serves is scraped on.
"""

import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import attrs

from tarn.cluster.link import Link
from tarn.domain.master_files import API_TOKEN, SCRAPE_TOKEN
from tarn.domain.request_proof import scrape_token
from tarn.errors import TarnError, UnreachableError

__all__ = ["TargetFiles", "follow_targets", "keep_scrape_token"]

LOOK_EVERY_S = 5.0
"""How soon a Prometheus hears of a master that moved; it scrapes each 15 s."""


def keep_scrape_token(directory: Path) -> Path | None:
    """Return the file of the token of the metrics, written where it differs; None: none is asked.

    A Prometheus sends it as it is, to whoever listens at the master's address: so it opens the
    metrics, and nothing else that the api token does.

    Raises:
        OSError: A file cannot be read or written.
    """
    try:
        api_token = (directory / API_TOKEN).read_bytes().strip()
    except FileNotFoundError:
        return None
    path = directory.absolute() / SCRAPE_TOKEN
    text = scrape_token(api_token).decode()
    if not path.is_file() or path.read_text("ascii") != text:
        part = path.with_name(f".{path.name}.new")
        part.unlink(missing_ok=True)
        part.touch(0o600, exist_ok=False)
        part.write_text(text, "ascii")
        part.replace(path)
    return path


@attrs.frozen
class TargetFiles:
    """Two files in one folder, which a Prometheus may read at any time."""

    folder: Path
    cluster: str
    kept: Path | None = None
    """The cluster's directory, whose token of the metrics is followed, too; None: it is not."""

    @property
    def master(self) -> Path:
        """The file with the master's address."""
        return self.folder.absolute() / f"tarn-{self.cluster}-master.json"

    @property
    def triton(self) -> Path:
        """The file with the addresses of the instances' own metrics."""
        return self.folder.absolute() / f"tarn-{self.cluster}-triton.json"

    def write(self, link: Link) -> bool:
        """Ask the master at the end of *link*, and write what differs; say whether it did.

        Raises:
            TarnError: There is no such cluster, or its master does not answer or let us in.
            OSError: A file cannot be written.
        """
        instances = _read(link.ask(lambda api: api.text("/api/v1/sd")), link.url or "")
        labels = {"job": "tarn", "cluster": self.cluster}
        master = [{"targets": [urlsplit(link.url or "").netloc], "labels": labels}]
        if self.kept is not None:
            keep_scrape_token(self.kept)
        wrote = [_replace(self.triton, instances), _replace(self.master, master)]
        return any(wrote)


def follow_targets(
    files: TargetFiles, link: Link, stop: threading.Event, say: Callable[[str], None]
) -> None:
    """Keep *files* like the cluster until *stop* is set; *say* gets a line at each change.

    Raises:
        OSError: A file cannot be written.
    """
    told = ""
    while not stop.wait(LOOK_EVERY_S):
        try:
            line = f"{files.cluster} is scraped at {link.url}" if files.write(link) else ""
        except TarnError as error:
            line = f"the targets are kept: {error}"
        if line and line != told:
            say(line)
        told = line or told


def _read(text: str, url: str) -> Sequence[Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, list):
        raise UnreachableError("answered, but not as a master does", where=f"{url}/api/v1/sd")
    return found


def _replace(path: Path, targets: Sequence[Any]) -> bool:
    text = json.dumps(targets, indent=1) + "\n"
    try:
        if path.read_text("utf-8") == text:
            return False
    except (FileNotFoundError, UnicodeDecodeError):
        pass
    part = path.with_name(f".{path.name}.part")
    part.write_text(text, "utf-8")
    part.replace(path)
    return True
