"""The way to one cluster's master: found, kept, and found again when the master moved."""

import logging
from collections.abc import Callable
from typing import TypeVar

from tarn.cluster.entries import reference
from tarn.cluster.environment import ClusterEnvironment
from tarn.cluster.master_trust import trust
from tarn.domain import ANONYMOUS
from tarn.domain.master_files import SPEC
from tarn.errors import (
    NotAuthorizedError,
    NotFoundError,
    TarnError,
    TimedOutError,
    UnreachableError,
)
from tarn.follow import DISTRUST, NOBODY_LISTENS, MasterApi, Trust
from tarn.interfaces import ClusterRef, Deployer, Ending

__all__ = ["NOT_RUNNING_STEP", "Link"]

NOT_RUNNING_STEP = (
    "`tarn up` starts it; in a folder without a tarn.yaml `tarn status` lists what runs."
)

T = TypeVar("T")
log = logging.getLogger(__name__)

FIND_EVERY_S = 2.0
"""Between two questions to the runtime for a master that does not answer: it may be far away."""
COMES_BACK_S = FIND_EVERY_S
"""How long a reader waits, once, for a master that is being started again."""


class Link:
    """Asks the master of one cluster over HTTP.

    A master that was restarted listens elsewhere: when one does not answer, the reference is read
    again, then the runtime is asked, and a question goes once more to each new address. A master
    that cannot be reached is asked through its proxy, where there is one. Every question may be
    asked twice: what is written is absolute. Before the first question of a connection whoever
    answers must say that it is this cluster's master: its port may be another's by now.

    Args:
        name: The cluster's name.
        environment: Where its files are, and how an API client is made.
        deployer: Makes the deployer of the cluster's runtime; called only when it is needed.
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
        """By which it asks."""
        self._url: str | None = None
        self._proven = False
        self._found: ClusterRef | None = None
        self._found_s = float("-inf")
        self._told = self._told_token = False
        self.proxied = False
        """Whether the master was last asked through its proxy, which holds streams back."""

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

    def ended(self) -> Ending | None:
        """Return how the cluster ended; None while something of it runs, or when nobody knows."""
        try:
            deployer = self.deployer
        except NotFoundError:  # nothing is known of it here
            return None
        return None if deployer.find(self.name) is not None else deployer.ended(self.name)

    def ask(self, question: Callable[[MasterApi], T]) -> T:
        """Return the master's answer to *question*.

        Raises:
            NotFoundError: There is no such cluster.
            UnreachableError: There is one, and its master does not answer.
            TimedOutError: Its master took the question, and does not answer it.
            NotAuthorizedError: Its master does not let us in; the error says why it may be so.
        """
        if self._api is None:
            self._open(self._address())
        try:
            return self._put_by_newest_token(question)
        except (NotAuthorizedError, UnreachableError, TimedOutError) as error:
            return self._ask_elsewhere(question, error)

    def read(self, question: Callable[[MasterApi], T]) -> T:
        """Return the master's answer to *question*; one that comes back is waited for a moment.

        Raises:
            TarnError: As `ask`.
        """
        try:
            return self.ask(question)
        except (UnreachableError, TimedOutError) as error:
            if not self._comes_back(error):
                raise
        self._environment.rest(COMES_BACK_S)
        return self.ask(question)

    def _comes_back(self, error: TarnError) -> bool:
        """Say whether another master is on its way, as far as the runtime told just now.

        It may not know yet that the master ended, at whose port nobody listens.
        """
        if self._found is None:
            return False
        return self._found.restarts or (
            error.code == NOBODY_LISTENS and self._found.url is not None
        )

    def open(self) -> MasterApi:
        """Return a client of the master where it is now; the caller closes it. Any thread.

        Raises:
            NotFoundError: There is no such cluster.
            UnreachableError: There is one, and its master does not answer, or not yet.
            TimedOutError: Its master does not answer.
        """
        way = Link(self.name, self._environment, self._make_deployer)  # nothing here changes
        way._deployer, way._found, way._found_s = self._deployer, self._found, self._found_s
        try:
            way.ask(lambda _api: None)  # a connection's first words prove the master
        except BaseException:
            way.close()
            raise
        finally:
            self._found, self._found_s = way._found, way._found_s
        return way._given_away()

    def _given_away(self) -> MasterApi:
        """Return the client that answered, which is the caller's from now on."""
        assert self._api is not None
        return self._api

    def close(self) -> None:
        """Close the connection; it opens again when something is asked."""
        if self._api is not None:
            self._api.close()
        self._api = self._url = None
        self.proxied = self._proven = False

    def _put_by_newest_token(self, question: Callable[[MasterApi], T]) -> T:
        """Put *question*; once more where the cluster has another api token by now."""
        try:
            return self._put(question)
        except NotAuthorizedError:
            if self._url is None or self.proxied or self._api_token() == self._token:
                raise
        self._open(self._url)
        return self._put(question)

    def _put(self, question: Callable[[MasterApi], T]) -> T:
        """Put *question* to whoever listens, once it has said that it is this cluster's master."""
        assert self._api is not None
        if not self._proven:
            name = self._api.cluster()
            if name != self.name:
                raise UnreachableError(f"answers for cluster '{name}'", where=self._url or "")
            self._proven = True
        try:
            return question(self._api)
        except UnreachableError:
            self._proven = False  # who listens there next may be another
            raise

    def _ask_elsewhere(self, question: Callable[[MasterApi], T], error: TarnError) -> T:
        """Ask at each address that was not tried; raise the last error where there is none.

        Who lets nobody in has not said whose master it is, so others are tried then, too.
        """
        errors: dict[str | None, TarnError] = {self._url: error}
        for far in (False, True):
            if isinstance(error, NotAuthorizedError) and (self._proven or self.proxied):
                raise self._refused(error) from error
            url = self._find_again(error) if far else self._noted()
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
        """Ask through the proxy, or raise what counts of *errors*, by address, the last one last.

        That is what was heard where the runtime knows the master, whatever a stranger says
        elsewhere.
        """
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
        """Ask through the proxy at *url*, to which no api token can travel."""
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
        """Return *error*, and where nobody's token came to the master, why that is so.

        Args:
            error: The master's answer.
            blocked: Why the master could not be asked but through the proxy.
        """
        lacks_ticket = self._api is not None and bool(self._api.lack)
        if error.principal != ANONYMOUS.user or lacks_ticket:
            return error  # which says what is to be done
        token = self._environment.paths.cluster(self.name) / "api_token"
        if self.proxied:
            step = (
                f"The proxy {self._url} does not pass api tokens on, and the master cannot be "
                f"reached without the proxy{f' ({blocked})' if blocked else ''}. Ask from a "
                "machine that reaches it, or start the cluster with `api: {token: none}`"
            )
            self.close()  # the next question looks for a better way
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
        """Ask the runtime for the address, unless that was done just now.

        Args:
            error: What was heard at the other addresses.

        Raises:
            UnreachableError: The runtime cannot be asked either.
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
        # Before a proxy stands another's certificate, and no api token passes it.
        known = Trust() if proxied else trust(self._environment.paths.cluster(self.name), url)
        self._token = None if proxied else self._api_token()
        self._api = self._environment.api(url, self._token, known)
        self._url, self.proxied = url, proxied

    def _noted(self) -> str | None:
        noted = reference(self._environment.paths.cluster(self.name))
        return None if noted is None else noted.url

    def _address(self) -> str:
        noted = self._noted()
        if noted:
            return noted
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
            # whose spec is kept here and no token asks for none
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
