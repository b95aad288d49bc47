"""How many requests one address, or one user there, may send: a bucket for each."""

from collections import OrderedDict

import attrs

__all__ = ["Rates"]

MOST_ADDRESSES = 4096


@attrs.define
class _Bucket:
    left: float
    at_s: float


class Rates:
    """Counts requests by address. Lives on one event loop.

    A bucket holds what an address may send in a second, so a burst of that is fine. Of more
    addresses than *most* the one heard of the longest ago is forgotten, which gives it a full
    bucket when it comes again: memory is bounded, and nobody is refused for what others do.

    Args:
        per_s: Requests a second, as a mean.
        most: Addresses that are remembered.
        burst: What a bucket holds, where that is not a second's worth; at least 1.
    """

    def __init__(
        self, per_s: float, most: int = MOST_ADDRESSES, *, burst: float | None = None
    ) -> None:
        self._per_s = per_s
        self._burst = per_s if burst is None else burst
        self._most = most
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def wait_s(self, address: str, now_s: float) -> float:
        """Count a request from *address*: 0 lets it in; else it comes that many seconds too early.

        A refused request costs nothing: who keeps asking is let in as often as who waits.
        """
        left, bucket = self.left(address, now_s), self._bucket(address, now_s)
        bucket.left, bucket.at_s = left, now_s
        if bucket.left < 1.0:
            return (1.0 - bucket.left) / self._per_s
        bucket.left -= 1.0
        return 0.0

    def left(self, address: str, now_s: float) -> float:
        """Return how many requests *address* has left now; counts nothing."""
        bucket = self._buckets.get(address)
        if bucket is None:
            return self._burst
        return min(self._burst, bucket.left + max(0.0, now_s - bucket.at_s) * self._per_s)

    def _bucket(self, address: str, now_s: float) -> _Bucket:
        bucket = self._buckets.get(address)
        if bucket is None:
            bucket = self._buckets[address] = _Bucket(self._burst, now_s)
            if len(self._buckets) > self._most:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(address)
        return bucket
