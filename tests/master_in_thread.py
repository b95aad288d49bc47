"""A master as it is composed for real, on a thread of the test, with a small runtime."""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import yaml

from tarn import config, master, plugins
from tarn.control.loop import ControlResult
from tarn.domain import ClusterSpec, Epoch
from tarn.hookspecs import RuntimeFactory
from tarn.interfaces import RuntimeCapabilities, StateStore
from tarn.testing.fakes import FakeRuntime, FakeStateStore
from tarn.testing.wait import until

ENVIRON = {"HOME": "/nowhere"}


@attrs.frozen
class Nothing:
    """No settings."""


def running(
    runtime: FakeRuntime, store: Callable[[], StateStore] = FakeStateStore, **more: Any
) -> RuntimeFactory:
    """Return what a plugin offers to a master that runs *runtime*; *more* of its parts by name."""

    def never(*_arguments: object) -> Any:
        raise AssertionError("only a client makes this")

    return RuntimeFactory(
        Nothing,
        never,
        lambda _settings, _context: runtime,
        lambda _settings, _context: store(),
        lambda _settings, _directory, _environ: Epoch(1, 1),
        RuntimeCapabilities(),
        "of a test",
        **more,
    )


def brought(directory: Path, spec: ClusterSpec, api_token: str = "") -> None:
    """Write what a deployer leaves for the master of *spec*."""
    (directory / "spec.yaml").write_text(yaml.safe_dump(config.dump(spec)))
    (directory / "staged.json").write_text(json.dumps({"location": "/models"}))
    (directory / "triton.secret").write_bytes(b"s3cret")
    if api_token:
        (directory / "api_token").write_text(api_token)


@contextlib.contextmanager
def at_work(
    directory: Path,
    plugin: object,
    runtime: FakeRuntime,
    environ: Mapping[str, str] = ENVIRON,
    name: str = "",
) -> Iterator[None]:
    """Run the master in *directory* until the block ends; it has announced itself before.

    What it raised is raised here; at the end it must have left, and nothing else.

    Args:
        directory: Where its files are, or are brought by the runtime.
        plugin: Offers *runtime*, by the name that stands in the spec.
        runtime: What tells that it is at work.
        environ: Of the master.
        name: Of the runtime that it was started for; empty: the one of the spec.
    """
    stop, over = threading.Event(), list[ControlResult | Exception]()
    offered = plugins.load([plugin])

    def work() -> None:
        try:
            over.append(master.run(directory, environ, stop, name, offered))
        except Exception as error:  # noqa: BLE001 (raised again on the test's thread)
            over.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        until(lambda: runtime.api_url or over, 15, "the master's announcement")
        _raise(over)
        yield
    finally:
        stop.set()
        thread.join(15)
    _raise(over)
    assert over == [ControlResult.LEFT]


def _raise(over: list[ControlResult | Exception]) -> None:
    for one in over:
        if isinstance(one, Exception):
            raise one
