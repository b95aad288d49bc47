"""The connection to one cluster's master, which is found again when the master moves."""

import logging
from collections.abc import Callable
from typing import TypeVar

from tarn.cluster.entries import reference, trust
from tarn.cluster.environment import ClusterEnvironment
from tarn.domain import ANONYMOUS
from tarn.errors import (
    NotAuthorizedError,
    NotFoundError,
    TarnError,
    TimedOutError,
    UnreachableError,
)
from tarn.follow import DISTRUST, NOBODY_LISTENS, MasterApi, Trust
from tarn.interfaces import ClusterRef, Deployer, Ending
from tarn.plain.master_files import SPEC

__all__ = ["NOT_RUNNING_STEP", "Link"]

NOT_RUNNING_STEP = (
    "`tarn up` starts it; in a folder without a tarn.yaml `tarn status` lists what runs."
)

T = TypeVar("T")
log = logging.getLogger(__name__)

# Between two questions to the runtime where a master is: each may be a slow remote call.
FIND_EVERY_S = 2.0
# How long `read` waits, once, for a master that is restarting.
COMES_BACK_S = FIND_EVERY_S


class Link:
    """Asks the master of one cluster over HTTP.

    A restarted master may have another address. When the master does not answer, the link reads
    the reference on this machine again, then asks the runtime, and sends the question to each new
    address. If none can be reached, it uses the runtime's proxy, if there is one. So a question
    may be sent twice; every command of the API sets an absolute value and may be repeated.

    Args:
        name: The cluster's name.
        environment: Where its files are, and how an API client is made.
        deployer: Makes the deployer of the cluster's runtime; called only when needed.
    """

    def __init__(
        self, name: str, environment: ClusterEnvironment, deployer: Callable[[], Deployer]
    ) -> None:
        self.name = name
        self._environment = environment
        self._make_deployer = deployer
        self._deployer: Deployer | None = None
        self._api: MasterApi | None = None
        self._token: str | None = None
        self._url: str | None = None
        self._proven = False
        self._found: ClusterRef | None = None
        self._found_s = float("-inf")
        self._told = self._told_token = False
        self.proxied = False
        """Whether the last question went through the proxy, which does not pass streams on."""

    def __repr__(self) -> str:
        return f"Link({self.name!r}, url={self._url!r})"

    @property
    def deployer(self) -> Deployer:
        """The deployer of the cluster's runtime."""
        if self._deployer is None:
            self._deployer = self._make_deployer()
        return self._deployer

    @property
    def url(self) -> str | None:
        """The last known address of the master; None before the first question."""
        return self._url

    def find(self) -> ClusterRef | None:
        """Return the reference that the runtime has of the running cluster, or None."""
        return self.deployer.find(self.name)

    def ended(self) -> Ending | None:
        """Return how the cluster ended; None while it runs, or if that is unknown."""
        try:
            deployer = self.deployer
        except NotFoundError:  # this machine has no spec of it
            return None
        return None if deployer.find(self.name) is not None else deployer.ended(self.name)

    def ask(self, question: Callable[[MasterApi], T]) -> T:
        """Return the master's answer to *question*.

        Raises:
            NotFoundError: There is no such cluster.
            UnreachableError: The cluster's master cannot be reached.
            TimedOutError: The master accepted the connection, and does not answer.
            NotAuthorizedError: The master denied access; the error says why, if that is known.
        """
        if self._api is None:
            self._open(self._address())
        try:
            try:
                return self._put(question)
            except NotAuthorizedError:
                # The cluster may have been started again, with another api token.
                if self._url is None or self.proxied or self._api_token() == self._token:
                    raise
            self._open(self._url)
            return self._put(question)
        except (NotAuthorizedError, UnreachableError, TimedOutError) as error:
            return self._ask_elsewhere(question, error)

    def read(self, question: Callable[[MasterApi], T]) -> T:
        """Return the master's answer to *question*; wait a moment for a restarting master.

        Raises:
            TarnError: As `ask` does.
        """
        try:
            return self.ask(question)
        except (UnreachableError, TimedOutError) as error:
            # The port is closed, but the runtime may not have noticed yet that the master ended.
            found = self._found
            ended = error.code == NOBODY_LISTENS and found is not None and found.url is not None
            if not ended and (found is None or not found.restarts):
                raise
        self._environment.rest(COMES_BACK_S)
        return self.ask(question)

    def open(self) -> MasterApi:
        """Return a new client of the master, which the caller closes. Any thread may call this.

        Raises:
            NotFoundError: There is no such cluster.
            UnreachableError: Its master cannot be reached, or does not listen yet.
            TimedOutError: Its master does not answer.
        """
        # A second link, so that the connection of this one is not replaced in another thread.
        way = Link(self.name, self._environment, self._make_deployer)
        way._deployer, way._found, way._found_s = self._deployer, self._found, self._found_s
        try:
            way.ask(lambda _api: None)  # connects, and checks that it is this cluster's master
        except BaseException:
            way.close()
            raise
        finally:
            self._found, self._found_s = way._found, way._found_s
        assert way._api is not None  # since `ask` returned
        return way._api

    def close(self) -> None:
        """Close the connection; the next question opens it again."""
        if self._api is not None:
            self._api.close()
        self._api = self._url = None
        self.proxied = self._proven = False

    def _put(self, question: Callable[[MasterApi], T]) -> T:
        """Send *question*; first check that the connection leads to this cluster's master."""
        assert self._api is not None
        if not self._proven:
            # Another cluster's master may listen at the port of one that ended.
            name = self._api.cluster()
            if name != self.name:
                raise UnreachableError(f"answers for cluster '{name}'", where=self._url or "")
            self._proven = True
        try:
            return question(self._api)
        except UnreachableError:
            self._proven = False  # another program may listen there next
            raise

    def _ask_elsewhere(self, question: Callable[[MasterApi], T], error: TarnError) -> T:
        """Send *question* to each address that was not tried, or raise the last error."""
        errors: dict[str | None, TarnError] = {self._url: error}
        for far in (False, True):
            # A denial is final only from this cluster's master: an unproven one may be another's.
            if isinstance(error, NotAuthorizedError) and (self._proven or self.proxied):
                raise self._refused(error) from error
            url = self._find_again(error) if far else self._kept_url()
            if url and url not in errors:
                self._open(url)
                try:
                    return self._put(question)
                except (NotAuthorizedError, UnreachableError, TimedOutError) as again:
                    errors[url] = error = again
        return self._ask_last(question, errors)

    def _ask_last(
        self, question: Callable[[MasterApi], T], errors: dict[str | None, TarnError]
    ) -> T:
        """Ask through the proxy, or raise one of *errors*, which are by address, in order."""
        # The error at the address that the runtime knows counts; elsewhere a stranger may answer.
        ref = self._found if self._found is not None and self._found.url else None
        url = ref.url if ref is not None and ref.url in errors else next(reversed(errors))
        error = errors[url]
        if isinstance(error, NotAuthorizedError):
            if self._proven or (ref is not None and ref.url == url):
                raise self._refused(error) from error
            self.close()
            found = "the master of another cluster answers, and denied access"
            raise UnreachableError(found, where=url or "") from error
        through = ref.proxy_url if ref is not None else None
        away = isinstance(error, UnreachableError) and error.code not in DISTRUST
        if through and through not in errors and away:
            return self._ask_through(through, question, error)
        raise error

    def _ask_through(self, url: str, question: Callable[[MasterApi], T], error: TarnError) -> T:
        """Ask through the proxy at *url*, which does not pass api tokens on."""
        self._open(url, proxied=True)
        try:
            answer = self._put(question)
        except UnreachableError as again:
            self.close()
            raise UnreachableError(
                f"{error.found}; through the proxy {url}: {again.found}", where=error.where
            ) from again
        except NotAuthorizedError as refused:
            raise self._refused(refused, error.found) from refused
        if not self._told:
            self._told = True
            log.warning("'%s' is reached through the proxy %s: %s", self.name, url, error.found)
        return answer

    def _refused(self, error: NotAuthorizedError, blocked: str = "") -> NotAuthorizedError:
        """Return *error*, with a next step if no token reached the master.

        Args:
            error: The master's answer.
            blocked: Why only the proxy could be reached.
        """
        lacks_ticket = self._api is not None and bool(self._api.lack)
        if error.principal != ANONYMOUS.user or lacks_ticket:
            return error  # it has a next step already
        token = self._environment.paths.cluster(self.name) / "api_token"
        if self.proxied:
            step = (
                f"The proxy {self._url} does not pass api tokens on, and the master cannot be "
                f"reached without the proxy{f' ({blocked})' if blocked else ''}. Ask from a "
                "machine that reaches it, or start the cluster with `api: {token: none}`"
            )
            self.close()  # so that the next question tries the direct address again
        elif not token.exists() and not self._environment.environ.get("TARN_TOKEN"):
            step = (
                f"Its api token is not kept here, in {token}, and TARN_TOKEN is not set. Run "
                "this where its tarn.yaml is (runtime.options say where the token is), or copy "
                "the file from the TARN_HOME that started it"
            )
        else:
            return error
        return NotAuthorizedError(error.principal, error.action, error.model, next_step=step)

    def _find_again(self, error: TarnError) -> str | None:
        """Return the address that the runtime has, asking it at most every `FIND_EVERY_S`.

        Raises:
            UnreachableError: The runtime does not answer either; it includes *error*, which came
                from the other addresses.
        """
        now_s = self._environment.clock.now_s()
        if now_s - self._found_s >= FIND_EVERY_S:
            self._found_s, self._found = now_s, None
            try:
                self._found = self.find()
            except TarnError as silent:
                raise UnreachableError(
                    f"{error.found}; its runtime could not be asked: {silent.found}",
                    where=error.where,
                    next_step=silent.next_step,
                ) from silent
        return None if self._found is None else self._found.url

    def _open(self, url: str, *, proxied: bool = False) -> None:
        self.close()
        # A proxy has its own certificate, and passes no api token on.
        known = Trust() if proxied else trust(self._environment.paths.cluster(self.name), url)
        self._token = None if proxied else self._api_token()
        self._api = self._environment.api(url, self._token, known)
        self._url, self.proxied = url, proxied

    def _kept_url(self) -> str | None:
        noted = reference(self._environment.paths.cluster(self.name))
        return None if noted is None else noted.url

    def _address(self) -> str:
        kept = self._kept_url()
        if kept:
            return kept
        ref = self.find()
        if ref is None:
            raise NotFoundError(
                f"cluster '{self.name}' does not run",
                next_step=NOT_RUNNING_STEP,
            )
        if ref.url is None:
            raise UnreachableError(f"the master of '{self.name}' does not listen yet")
        return ref.url

    def _api_token(self) -> str | None:
        if self._environment.api_token is not None:
            return self._environment.api_token()
        path = self._environment.paths.cluster(self.name) / "api_token"
        given = self._environment.environ.get("TARN_TOKEN", "").strip()
        try:
            kept = path.read_text("ascii").strip()
        except FileNotFoundError:
            # With a spec but no token here, the cluster was started with `token: none`.
            return (given or None) if not (path.parent / SPEC).exists() else None
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "not ASCII text"
            raise TarnError(
                f"the api token cannot be read ({why})",
                where=str(path),
                right="It must be readable by you, mode 0600.",
            ) from error
        if given and given != kept and not self._told_token:
            self._told_token = True
            log.warning("TARN_TOKEN is not used for '%s': its token is kept in %s", self.name, path)
        return kept or None
