"""Sockets that are taken."""

import socket

import pytest

from tarn.errors import RefusedError
from tarn_plugins.cli.sandbox.daemons import check_free, daemons, sockets
from tarn_plugins.cli.sandbox.options import SandboxOptions

QUIET = SandboxOptions(network=251, nodes=1)
"""No sandbox is there."""


def test_a_taken_socket_is_named_with_its_daemon_and_a_free_one_is_no_error() -> None:
    """Before any daemon would stumble over it."""
    every = daemons(QUIET, "/d")
    check_free(every, QUIET)
    address, port = sockets(every[-1], QUIET)[0]
    with socket.create_server((address, port)):
        with pytest.raises(RefusedError, match=f"daemon nm1: {address}:{port} is taken") as caught:
            check_free(every, QUIET)
    assert caught.value.code == "TARN-3504"
    assert "another --network" in caught.value.next_step
