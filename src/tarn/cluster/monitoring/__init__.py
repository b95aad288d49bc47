"""What Prometheus and Grafana need of TARN: the data files next to this, and a scrape config."""

from importlib import resources

from tarn.cluster.monitoring.scrape import Scrape, scrape_config, scrape_of
from tarn.cluster.monitoring.targets import TargetFiles, follow_targets
from tarn.cluster.monitoring.text import metrics_rows, metrics_text

__all__ = [
    "DASHBOARDS",
    "RULES",
    "Scrape",
    "TargetFiles",
    "follow_targets",
    "metrics_rows",
    "metrics_text",
    "scrape_config",
    "scrape_of",
    "shipped",
]

RULES = ("tarn-alerts.yaml",)
"""Rules of alerts, as Prometheus reads them."""
DASHBOARDS = ("fleet.json", "farm.json")
"""Grafana's: one cluster, and all clusters of one Prometheus."""


def shipped(name: str) -> str:
    """Return the text of the data file *name*."""
    return resources.files(__name__).joinpath(name).read_text("utf-8")
