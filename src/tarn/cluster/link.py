"""The way to one cluster's master: found, kept, and found again when the master moved."""

from collections.abc import Callable
from typing import TypeVar

from tarn.cluster.entries import reference
from tarn.cluster.surroundings import Surroundings
from tarn.errors import NotFoundError, TarnError, TimedOutError, UnreachableError
from tarn.follow import Api
from tarn.interfaces import ClusterRef, Deployer

__all__ = ["Link"]

T = TypeVar("T")


class Link:
    """Asks the master of one cluster over HTTP.

    A master that was restarted listens elsewhere: when one does not answer, the reference is read
    again, and a question goes once more to the new address. Every question may be asked twice:
    what is written is absolute.

    Args:
        name: The cluster's name.
        surroundings: Where its files are, and how an API client is made.
        deployer: Makes the deployer of the cluster's runtime; called only when it is needed.
    """

    def __init__(
        self, name: str, surroundings: Surroundings, deployer: Callable[[], Deployer]
    ) -> None:
        self.name = name
        self._surroundings = surroundings
        self._make_deployer = deployer
        self._deployer: Deployer | None = None
        self._api: Api | None = None
        self._url: str | None = None

    @property
    def deployer(self) -> Deployer:
        """The runtime's client side."""
        if self._deployer is None:
            self._deployer = self._make_deployer()
        return self._deployer

    @property
    def url(self) -> str | None:
        """Where the master was last found; None before it was asked."""
        return self._url

    def find(self) -> ClusterRef | None:
        """Return what the runtime knows of the cluster now."""
        return self.deployer.find(self.name)

    def ask(self, question: Callable[[Api], T]) -> T:
        """Return the master's answer to *question*.

        Raises:
            NotFoundError: There is no such cluster.
            UnreachableError: There is one, and its master does not answer.
        TimedOutError: Its master took the question, and does not answer it.
        """
        if self._api is not None:
            try:
                return question(self._api)
            except (UnreachableError, TimedOutError):
                before = self._url
                if self._address() == before:
                    raise
        return question(self._open())

    def open(self) -> Api:
        """Return a client of the master where it is now; the caller closes it.

        Raises:
            NotFoundError: There is no such cluster.
            UnreachableError: There is one, and its master does not listen yet.
        """
        return self._surroundings.api(self._address(), self._api_token())

    def close(self) -> None:
        """Close the connection; it opens again when something is asked."""
        if self._api is not None:
            self._api.close()
        self._api = self._url = None

    def _open(self) -> Api:
        url = self._address()
        self.close()
        self._api = self._surroundings.api(url, self._api_token())
        self._url = url
        return self._api

    def _address(self) -> str:
        noted = reference(self._surroundings.paths.cluster(self.name))
        if noted is not None and noted.url:
            return noted.url
        ref = self.find()
        if ref is None:
            raise NotFoundError(
                f"cluster '{self.name}' does not run", next_step="`tarn status` lists what does"
            )
        if ref.url is None:
            raise UnreachableError(f"the master of '{self.name}' does not listen yet")
        return ref.url

    def _api_token(self) -> str | None:
        path = self._surroundings.paths.cluster(self.name) / "api_token"
        try:
            return path.read_text("ascii").strip() or None
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "not ASCII text"
            raise TarnError(
                f"the api token cannot be read ({why})",
                where=str(path),
                right="It must be readable by you, mode 0600.",
            ) from error
