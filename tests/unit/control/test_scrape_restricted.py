"""The scraper and a Triton that wants a key, against fakes on real sockets."""

from test_scrape import is_live, watching

from tarn.control.scrape import ProbeTarget, WarmupRequest
from tarn.domain import Known, Unknown
from tarn.testing.fake_triton import FakeTriton
from tarn.triton.restricted import Keys

KEYS = Keys(
    tuple(
        (part, "tarn-key", "k") for part in ("health", "metadata", "inference", "model-repository")
    )
)


def restricted(triton: FakeTriton) -> None:
    triton._server.state.restricted = {part: ("tarn-key", "k") for part, _, _ in KEYS.held}


def test_with_the_key_everything_is_seen_warmed_and_unloaded() -> None:
    """Whatever part is restricted."""
    with FakeTriton("m") as triton:
        restricted(triton)
        wanted = WarmupRequest("/v2/models/m/infer", b'{"inputs": []}')
        target = ProbeTarget(triton.endpoint, (wanted,), keys=KEYS)
        with watching(a=target) as watcher:
            reading = watcher.until(lambda r: isinstance(r.models, Known))
            assert is_live(reading)
            target = ProbeTarget(triton.endpoint, (wanted,), unload=True, keys=KEYS)
            watcher.scraper.watch({"a": target})
            watcher.until(lambda r: r.unloaded == Known(value=True))


def test_without_the_key_nothing_is_known() -> None:
    """A Triton that refuses is not taken for one without models."""
    with FakeTriton("m") as triton:
        restricted(triton)
        with watching(a=ProbeTarget(triton.endpoint)) as watcher:
            reading = watcher.until(lambda r: isinstance(r.live, Known) and not r.live.value)
            assert reading.models == Unknown("the repository index answered 403")
