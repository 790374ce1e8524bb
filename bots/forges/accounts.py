"""By which name an account or a project is known here: forges give a name that was set free to whoever asks for it.

Whoever is first seen under a login keeps it here, whatever they are called later. Another account under a taken login
is somebody else, `LOGIN+NUMBER`. Projects are kept apart in the same way.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Protocol

from bots.common.caches import BoundedDict
from bots.common.positions import PositionStore
from bots.forges.client import NUMBER_SIGN, Account
from core.observability.logs import get_logger

_log = get_logger(__name__)

MAX_KNOWN_ACCOUNTS = 10_000
MAX_HOST_CHARS = 32
# Whom nobody could tell apart from who had the login before.
NOBODY = 0
TAKEN_MESSAGE = (
    "somebody else is called {platform}:{login} now, and has none of the rights of that name here. Is it the same "
    "person with a new account? Then write {platform}:{other}"
)
RENAMED_MESSAGE = "{platform}:{login} is the account that is known here as {name}: write {platform}:{name}"
UNKNOWN_MESSAGE = (
    "nobody can tell who {platform}:{login} is, and the name has no rights: write {platform}:{login}+NUMBER, with the "
    "number of the account"
)
# The chat, the thread and the id of what somebody wrote before accounts were told apart by their numbers.
OldMessage = tuple[str, str, str]


class AccountStore(PositionStore, Protocol):
    """What the journal keeps of accounts: numbers by name; and of what was said below issues."""

    async def find(self, prefix: str, position: int | None = None) -> Sequence[str]:
        """Return the names that begin in a way, without that beginning; with a position, those that have it."""
        ...

    async def find_old_messages(self, author_id: str) -> Sequence[OldMessage]:
        """Return the first and the last message of a person; one without a place if there are other traces alone."""
        ...

    async def close_thread(self, chat: str, thread: str) -> int:
        """Tell what was said in a thread to nobody else in its chat; return how much was open before."""
        ...


class Accounts:
    """The accounts of one forge. `get_configured` returns whom the configuration and the commands give rights.

    `find_author` returns the number of who wrote a message, 0 where nobody can tell. Calls raise what the store and it
    raise.
    """

    def __init__(
        self,
        platform: str,
        host: str,
        store: AccountStore,
        get_configured: Callable[[], Collection[str]],
        find_author: Callable[[OldMessage], Awaitable[int]],
    ) -> None:
        self._platform = platform
        self._host = host
        self._people, self._logins = _get_prefixes(host)
        self._store = store
        self._get_configured = get_configured
        self._find_author = find_author
        self._known = BoundedDict[int, str](MAX_KNOWN_ACCOUNTS)

    async def get_id(self, account: Account) -> str:
        """Return by what name an account is known."""
        login = account.login.lower()
        if not account.number:
            return f"{login}{NUMBER_SIGN}0"
        if name := self._known.get(account.number):
            return name
        names = await self._store.find(self._people, account.number)
        name = names[0] if names else await self._name(login, account.number)
        if not names:
            await self._store.save(f"{self._people}{name}", account.number)
        self._known[account.number] = name
        return name

    async def list_unresolved(self) -> Sequence[str]:
        """Return the configured logins of which nobody knows yet whose they are."""
        return [
            login
            for login in self._get_configured()
            if NUMBER_SIGN not in login and await self._store.load(f"{self._logins}{login}") is None
        ]

    async def get_owner(self, login: str, number: int) -> int:
        """Return whose login it is, 0 for nobody; at first sight of who wrote under it before, else of a number."""
        owner = await self._store.load(f"{self._logins}{login}")
        if owner is None:
            owner = await self._find_first_owner(login, number)
            await self._store.save(f"{self._logins}{login}", owner)
            if owner and not await self._store.find(self._people, owner):
                await self._store.save(f"{self._people}{login}", owner)
        return owner

    async def find_faults(self) -> Sequence[str]:
        """Return what `find_faults` finds among the configured."""
        return await find_faults(self._platform, self._host, self._store, self._get_configured())

    async def _name(self, login: str, number: int) -> str:
        full_name = f"{login}{NUMBER_SIGN}{number}"
        if full_name in self._get_configured():
            return full_name
        if await self.get_owner(login, number) == number:
            return login
        _log.warning(f"{self._platform}.login_taken", login=login, known_as=full_name)
        return full_name

    async def _find_first_owner(self, login: str, number: int) -> int:
        """Return the number of who wrote under a login before numbers were kept. Several are nobody."""
        authors = {await self._find_author(message) for message in await self._store.find_old_messages(login)}
        return authors.pop() if len(authors) == 1 else NOBODY if authors else number


async def find_faults(platform: str, host: str, store: AccountStore, configured: Collection[str]) -> Sequence[str]:
    """Return a sentence for each name of the configuration that is another's now, or nobody's, or kept differently."""
    faults = list[str]()
    people, logins = _get_prefixes(host)
    for name in sorted(configured):
        login, _, number = name.partition(NUMBER_SIGN)
        owner = int(number) if number else await store.load(f"{logins}{login}")
        known_as = await store.find(people, owner) if owner else []
        values = {"platform": platform, "login": login}
        if owner == NOBODY:
            faults.append(UNKNOWN_MESSAGE.format(**values))
        elif known_as and known_as[0] != name:
            faults.append(RENAMED_MESSAGE.format(platform=platform, login=name, name=known_as[0]))
        elif not number:
            others = [f"{login}{NUMBER_SIGN}{other}" for other in await store.find(f"{people}{login}{NUMBER_SIGN}")]
            faults += [TAKEN_MESSAGE.format(**values, other=other) for other in others if other not in configured]
    return faults


def _get_prefixes(host: str) -> tuple[str, str]:
    """Return how the names begin under which people and the owners of logins are kept."""
    # Names in the journal are no longer than 128 characters.
    short_host = host[-MAX_HOST_CHARS:]
    return f"{short_host}:person:", f"{short_host}:login:"
