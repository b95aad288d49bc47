"""A cluster's clients."""

import threading

import pytest
from fake_fleet import FakeFleet

import tarn.client
from tarn.cluster import Cluster
from tarn.errors import ConfigError, NotFoundError


def made(fleet: FakeFleet) -> Cluster:
    return Cluster(
        {"name": "demo", "models": "models", "runtime": {"use": "fake"}},
        environment=fleet.environment,
    )


def test_a_client_follows_where_the_master_is(fleet):
    """Its source opens the address that is noted now, with the cluster's token, and no other."""
    cluster = made(fleet).up()
    api = cluster.source.open()
    written = (fleet.directory / "api_token").read_text().strip()
    assert (api.url, api.api_token) == (cluster.url, written)
    assert cluster.source.name == "demo"
    assert written not in repr(cluster.source)


def test_a_cluster_that_does_not_run_has_no_client(fleet):
    """It is said at once, not after the patience of the first call; no thread is left."""
    before = set(threading.enumerate())
    cluster = made(fleet)
    with pytest.raises(NotFoundError):
        cluster.client()
    with pytest.raises(NotFoundError):
        tarn.client.http(cluster)
    assert set(threading.enumerate()) <= before


def test_an_unknown_option_of_a_client_is_refused(fleet):
    """With the known ones."""
    for make in (made(fleet).client, made(fleet).aio_client, made(fleet).grpc_client):
        with pytest.raises(ConfigError, match="retry_resets"):
            make(retries=3)
