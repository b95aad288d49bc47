"""A client's fleet, kept like the view of a master."""

from collections.abc import Iterator

from tarn.client.pool import InstancePool
from tarn.client.targets import ServiceAddress
from tarn.domain import DiscoveryView
from tarn.errors import UnreachableError
from tarn.follow import Master, MasterSource, ViewFollower
from tarn.follow.views import NO_PUSH_FOR_S, POLL_EVERY_S
from tarn.interfaces import Clock

__all__ = ["NO_PUSH_FOR_S", "MasterSource", "PoolFollower"]


class PoolFollower(ViewFollower):
    """One thread that keeps a `InstancePool` like the view of a master.

    Args:
        source: Finds the master, again after each loss.
        fleet: What is kept like the view.
        clock: Monotonic seconds.
        poll_every_s: How often it is asked for while it is not pushed.
    """

    def __init__(
        self,
        source: MasterSource,
        fleet: InstancePool,
        clock: Clock,
        *,
        poll_every_s: float = POLL_EVERY_S,
    ) -> None:
        def apply_view(view: DiscoveryView) -> None:
            (fleet.set_members if view.complete else fleet.add)(tuple(_targets(view)))

        super().__init__(
            source, apply_view, clock, poll_every_s=poll_every_s, thread="tarn-client-view"
        )
        self._named_by_url = isinstance(source, Master)

    def look(self) -> None:
        """Ask for the view once, on the caller's thread; before `start`.

        Raises:
            TarnError: There is no master, or it does not let this user.
        """
        try:
            super().look()
        except UnreachableError as error:
            if not self._named_by_url:
                raise
            raise UnreachableError(
                error.found,
                where=error.where,
                next_step="Write a master's address with http://, and a single Triton's without: "
                "'host:port'",
            ) from error


def _targets(view: DiscoveryView) -> Iterator[ServiceAddress]:
    for member in view.members:
        at = member.endpoint
        yield ServiceAddress(at.host, at.http_port, member.instance_id, at.grpc_port)
