"""What a Prometheus must be told to scrape one cluster: its master, and each of its Tritons."""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import attrs

from tarn.cluster.environment import ClusterEnvironment
from tarn.cluster.link import Link
from tarn.cluster.master_trust import trust
from tarn.cluster.monitoring.targets import TargetFiles, keep_scrape_token

__all__ = ["Scrape", "scrape_config", "scrape_of"]


INTERVAL_S = 15
"""Between two scrapes, and two looks for Tritons."""

KEPT = ("cluster", "container_id", "host", "instance")
"""What a Triton's series are labelled with. What else is known of it, such as its state, changes
while it runs, and would end its series each time."""


@attrs.frozen
class Scrape:
    """Where one master listens, and what proves to it that a Prometheus may ask."""

    cluster: str
    url: str
    """Base URL of the master."""
    credentials: Path | None = None
    """The file with the token, as Prometheus will find it; None: the master asks for none."""
    ca: Path | None = None
    """PEM file that names whom to believe at an https URL; None: the system's authorities."""
    interval_s: int = INTERVAL_S


def scrape_of(
    link: Link, around: ClusterEnvironment, credentials: Path | None = None, ca: Path | None = None
) -> Scrape:
    """Ask for the master at the end of *link*, and return how it is scraped.

    Args:
        link: To a cluster that runs.
        around: Where its files are.
        credentials: File with a token, in place of the one of the metrics that is kept with the
            cluster.
        ca: File with the authority, in place of the one that is kept with the cluster.

    Raises:
        TarnError: There is no such cluster, or its master does not answer or let us in.
        OSError: The file of the token cannot be written.
    """
    link.ask(lambda api: api.status())
    url = link.url or ""
    directory = around.paths.cluster(link.name)
    return Scrape(
        link.name,
        url,
        credentials or keep_scrape_token(directory),
        ca or trust(directory, url).ca,
    )


def scrape_config(scrape: Scrape, files: TargetFiles | None = None) -> dict[str, Any]:
    """Return the ``scrape_configs`` for one cluster; no secret stands in it.

    Both jobs label their series ``cluster``, and have one job name for all clusters, so that rules
    and dashboards find them.

    Args:
        scrape: Where the master is now.
        files: What follows the master when it moves; None: the address of now stands in it.
    """
    place = urlsplit(scrape.url)
    path = place.path.rstrip("/")
    return {
        "scrape_configs": [
            {
                "job_name": f"tarn-{scrape.cluster}",
                "scrape_interval": f"{scrape.interval_s}s",
                "scheme": place.scheme,
                "metrics_path": f"{path}/metrics",
                **_common(scrape),
                **_master_targets(scrape, files),
            },
            {
                "job_name": f"tarn-{scrape.cluster}-triton",
                "scrape_interval": f"{scrape.interval_s}s",
                **_triton_targets(scrape, files),
                "relabel_configs": [
                    {"action": "labelmap", "regex": f"__meta_tarn_({'|'.join(KEPT)})"},
                    {"target_label": "job", "replacement": "tarn-triton"},
                ],
            },
        ]
    }


def _master_targets(scrape: Scrape, files: TargetFiles | None) -> dict[str, Any]:
    if files is not None:
        return {"file_sd_configs": [{"files": [str(files.master)]}]}
    labels = {"job": "tarn", "cluster": scrape.cluster}
    return {"static_configs": [{"targets": [urlsplit(scrape.url).netloc], "labels": labels}]}


def _triton_targets(scrape: Scrape, files: TargetFiles | None) -> dict[str, Any]:
    if files is not None:
        return {"file_sd_configs": [{"files": [str(files.triton)]}]}
    every = f"{scrape.interval_s}s"
    url = f"{scrape.url}/api/v1/sd"
    return {"http_sd_configs": [{"url": url, "refresh_interval": every, **_common(scrape)}]}


def _common(scrape: Scrape) -> dict[str, Any]:
    """Return what both ways to the master need: who asks, and whom it believes.

    New each time: YAML writes one value that stands twice as a reference, which is hard to read.
    """
    common: dict[str, Any] = {}
    if scrape.credentials is not None:
        common["authorization"] = {"type": "Bearer", "credentials_file": str(scrape.credentials)}
    if scrape.url.startswith("https:") and scrape.ca is not None:
        common["tls_config"] = {"ca_file": str(scrape.ca.absolute())}
    return common
