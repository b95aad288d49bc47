"""The configuration with which a Prometheus scrapes a cluster's master and instances."""

import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import attrs

from tarn.cluster.entries import trust
from tarn.cluster.environment import ClusterEnvironment
from tarn.cluster.link import Link
from tarn.errors import TarnError, UnreachableError
from tarn.plain.credentials import scrape_token
from tarn.plain.master_files import API_TOKEN, SCRAPE_TOKEN

__all__ = [
    "Scrape",
    "TargetFiles",
    "follow_targets",
    "keep_scrape_token",
    "scrape_config",
    "scrape_of",
]

# Between two looks for a master that moved: shorter than a scrape interval, so one is lost at most.
LOOK_EVERY_S = 5.0
# Between two scrapes, and between two requests for the list of instances.
INTERVAL_S = 15
# The labels of an instance's series. Its other properties, such as its state, change while it
# runs, and each change would begin a new series.
KEPT = ("cluster", "container_id", "host", "instance")


def keep_scrape_token(directory: Path) -> Path | None:
    """Write the scrape token of a cluster if it changed; return its file, or None without one.

    Raises:
        OSError: A file cannot be read or written.
    """
    # Not the api token: Prometheus sends it to any program that listens at the master's address,
    # so it must give access to the metrics only.
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
    """The two target files of a cluster, for Prometheus' file_sd_configs."""

    folder: Path
    cluster: str
    kept: Path | None = None
    """The cluster's directory, to keep its scrape token up to date; None: leave it alone."""

    @property
    def master(self) -> Path:
        """The file with the master's address."""
        return self.folder.absolute() / f"tarn-{self.cluster}-master.json"

    @property
    def triton(self) -> Path:
        """The file with the addresses of the instances' metrics."""
        return self.folder.absolute() / f"tarn-{self.cluster}-triton.json"

    def write(self, link: Link) -> bool:
        """Ask the master, and write the files that changed; return whether any did.

        Raises:
            TarnError: There is no such cluster, or its master does not answer, or denies access.
            OSError: A file cannot be written.
        """
        text = link.ask(lambda api: api.text("/api/v1/sd"))
        try:
            instances = json.loads(text)
        except ValueError:
            instances = None
        if not isinstance(instances, list):
            where = f"{link.url or ''}/api/v1/sd"
            raise UnreachableError("answered, but not as a master does", where=where)
        labels = {"job": "tarn", "cluster": self.cluster}
        master = [{"targets": [urlsplit(link.url or "").netloc], "labels": labels}]
        if self.kept is not None:
            keep_scrape_token(self.kept)
        wrote = [_replace(self.triton, instances), _replace(self.master, master)]
        return any(wrote)


def follow_targets(
    files: TargetFiles, link: Link, stop: threading.Event, say: Callable[[str], None]
) -> None:
    """Keep *files* up to date until *stop* is set; call *say* with a line at each change.

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


@attrs.frozen
class Scrape:
    """The address of one master, and the credentials of a Prometheus."""

    cluster: str
    url: str
    """Base URL of the master."""
    credentials: Path | None = None
    """The file with the token, where Prometheus reads it; None: the master needs none."""
    ca: Path | None = None
    """PEM file with the authorities to trust at an https URL; None: the system's."""
    interval_s: int = INTERVAL_S


def scrape_of(
    link: Link, around: ClusterEnvironment, credentials: Path | None = None, ca: Path | None = None
) -> Scrape:
    """Return how the master at the end of *link* is scraped.

    Args:
        link: To a running cluster.
        around: Where its files are.
        credentials: File with a token; None: the cluster's scrape token.
        ca: File with the authority; None: the one that is kept with the cluster.

    Raises:
        TarnError: There is no such cluster, or its master does not answer, or denies access.
        OSError: The file of the token cannot be written.
    """
    link.ask(lambda api: api.status())  # finds the master's current address
    url = link.url or ""
    directory = around.paths.cluster(link.name)
    return Scrape(
        link.name,
        url,
        credentials or keep_scrape_token(directory),
        ca or trust(directory, url).ca,
    )


def scrape_config(scrape: Scrape, files: TargetFiles | None = None) -> dict[str, Any]:
    """Return the ``scrape_configs`` of Prometheus for one cluster, without a secret.

    Args:
        scrape: Where the master is now.
        files: Target files that are kept up to date; None: use the current address.
    """
    # All clusters share the label `job`, and differ in `cluster`: the rules and dashboards rely
    # on that.
    place, every = urlsplit(scrape.url), f"{scrape.interval_s}s"
    if files is not None:
        master: dict[str, Any] = {"file_sd_configs": [{"files": [str(files.master)]}]}
        triton: dict[str, Any] = {"file_sd_configs": [{"files": [str(files.triton)]}]}
    else:
        labels = {"job": "tarn", "cluster": scrape.cluster}
        master = {"static_configs": [{"targets": [place.netloc], "labels": labels}]}
        found = {"url": f"{scrape.url}/api/v1/sd", "refresh_interval": every, **_common(scrape)}
        triton = {"http_sd_configs": [found]}
    return {
        "scrape_configs": [
            {
                "job_name": f"tarn-{scrape.cluster}",
                "scrape_interval": every,
                "scheme": place.scheme,
                "metrics_path": f"{place.path.rstrip('/')}/metrics",
                **_common(scrape),
                **master,
            },
            {
                "job_name": f"tarn-{scrape.cluster}-triton",
                "scrape_interval": every,
                **triton,
                "relabel_configs": [
                    {"action": "labelmap", "regex": f"__meta_tarn_({'|'.join(KEPT)})"},
                    {"target_label": "job", "replacement": "tarn-triton"},
                ],
            },
        ]
    }


def _common(scrape: Scrape) -> dict[str, Any]:
    # A new dict at each call: YAML would write a shared one as an alias, which is hard to read.
    common: dict[str, Any] = {}
    if scrape.credentials is not None:
        common["authorization"] = {"type": "Bearer", "credentials_file": str(scrape.credentials)}
    if scrape.url.startswith("https:") and scrape.ca is not None:
        common["tls_config"] = {"ca_file": str(scrape.ca.absolute())}
    return common
