"""A client's fleet, kept like the view of a master."""

from collections.abc import Iterator

from tarn.client.fleet import Fleet
from tarn.client.targets import Target
from tarn.domain import DiscoveryView
from tarn.errors import UnreachableError
from tarn.follow import Following as FollowingView
from tarn.follow import Master, Source
from tarn.follow.views import NO_PUSH_FOR_S, POLL_EVERY_S
from tarn.interfaces import Clock

__all__ = ["NO_PUSH_FOR_S", "Following", "Source"]


class Following(FollowingView):
    """One thread that keeps a `Fleet` like the view of a master.

    Args:
        source: Finds the master, again after each loss.
        fleet: What is kept like the view.
        clock: Monotonic seconds.
        poll_every_s: How often it is asked for while it is not pushed.
    """

    def __init__(
        self, source: Source, fleet: Fleet, clock: Clock, *, poll_every_s: float = POLL_EVERY_S
    ) -> None:
        def obey(view: DiscoveryView) -> None:
            (fleet.obey if view.complete else fleet.add)(tuple(_targets(view)))

        super().__init__(source, obey, clock, poll_every_s=poll_every_s, thread="tarn-client-view")
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


def _targets(view: DiscoveryView) -> Iterator[Target]:
    for member in view.members:
        at = member.endpoint
        yield Target(at.host, at.http_port, member.instance_id, at.grpc_port)
