"""The adapter of forges: it asks each project what is new, and delivers every issue and comment once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from bots.common.adapter import ClientAdapter, read_secret, read_token
from bots.common.caches import BoundedDict
from bots.common.connection import NotAllowed, Refused, TokenRefused
from bots.common.dry_run import make_read_only
from bots.common.events import IgnoredEvent
from bots.forges.accounts import NOBODY, Accounts, AccountStore, OldMessage
from bots.forges.client import (
    COMMENT_PREFIX,
    DISCUSSIONS,
    NUMBER_SIGN,
    Account,
    Comment,
    ForgeClient,
    HiddenTopic,
    Identity,
    Reaction,
    Topic,
    remove_number,
)
from bots.forges.connection import ForgeIntervals
from bots.forges.convert import (
    get_answered_reason,
    get_closed_reason,
    get_skip_reason,
    has_answer_of_people,
    is_own,
    to_comment_message,
    to_message,
    to_rating,
)
from bots.forges.discussions import GithubDiscussions
from bots.forges.github import GithubClient
from bots.forges.gitlab import GitlabClient
from bots.forges.sink import ForgeSink
from bots.forges.transport import ForgeTransport
from bots.forges.webhooks import WebhookServer
from core.errors import KimasError, MessageDeleted, PlatformError
from core.observability.logs import get_logger
from core.ports import Delivery, MessageHandler, Sink
from core.runtime.tasks import wait_for
from core.settings import GithubSettings, GitlabSettings, Secret
from core.types import Message
from knowledge.sources.forge.github import HEADERS
from knowledge.web.values import get_int

if TYPE_CHECKING:
    from bots.forges.app_client import AppClient

_log = get_logger(__name__)

UNREADABLE_MESSAGE = "{platform}.token cannot be read: {error}. Make one in the settings of the bot's account"
UNREADABLE_WEBHOOK_MESSAGE = "{platform}.webhook_secret cannot be read: {error}. Make one with: openssl rand -hex 32"
UNREADABLE_KEY_MESSAGE = "github.private_key cannot be read: {error}. Make one in the settings of the app"
MIN_SECRET_CHARS = 16
OTHER_PROJECT = (
    "another one has the name {path} now: if the bot is to answer there, write {path}+{number} in its section and "
    "wherever the configuration names the chat"
)
ISSUES = "issues"
TITLES = {"github": "GitHub", "gitlab": "GitLab"}
# Comments that were delivered may be listed again.
MAX_KNOWN_COMMENTS = 10_000
# So many of the newest answers of a project are watched for reactions.
MAX_WATCHED_ANSWERS = 50
LOOK_BACK_S = 7 * 86_400
# So far each look goes back behind the last one. GitLab moves an issue's time once a minute at most.
OVERLAP_S = 120
S_PER_H = 3600.0


@dataclass(slots=True)
class Round:
    """What one look at a project has asked for already: topics with the comments below them, by path."""

    topics: dict[str, tuple[Topic, Sequence[Comment]]] = field(default_factory=dict)


@dataclass(slots=True)
class Project:
    """The topics of a kind in a project, the newest answers below them and their reactions.

    `is_read` says that no topic was left for the next round.
    """

    name: str
    kind: str
    answers: BoundedDict[int, Comment] = field(default_factory=lambda: BoundedDict(MAX_WATCHED_ANSWERS))
    has_answers_of_old: bool = False
    # How many answers there are below a topic, with those to what was delivered meanwhile.
    answer_counts: BoundedDict[str, int] = field(default_factory=lambda: BoundedDict(MAX_KNOWN_COMMENTS))
    reactions: dict[str, tuple[Comment, Reaction]] = field(default_factory=dict)
    # Answers that are not there any more, or not for the bot.
    gone_answers: set[int] = field(default_factory=set)
    is_read: bool = False
    reactions_read_at: float = 0.0

    @property
    def label(self) -> str:
        """What messages and positions call it: of issues, the project alone."""
        return self.name if self.kind == ISSUES else f"{self.name}:{self.kind}"


class ForgeAdapter(ClientAdapter[ForgeClient]):
    """One account, and the projects in which it answers. `port` is where webhooks arrive, once it listens.

    The first look at a project only notes how far it is. From then on topics are delivered by their number, once they
    are `wait_h` old, and comments by the time of their last change.
    """

    can_fetch_attachments = False
    can_resolve_doubt = True
    read_only_calls = (
        "get_identity",
        "get_account",
        "get_project",
        "get_last_number",
        "list_topics",
        "get_topic",
        "get_last_comment",
        "list_comments",
        "get_comment",
        "list_comments_below",
        "list_reactions",
        "forget_older_etags",
        "at",
        "close",
    )
    _intervals: ForgeIntervals

    def __init__(
        self,
        settings: GithubSettings | GitlabSettings,
        positions: AccountStore,
        get_people: Callable[[], Collection[str]] = frozenset,
        intervals: ForgeIntervals | None = None,
        *,
        read_only: bool = False,
    ) -> None:
        super().__init__(intervals or ForgeIntervals(), read_only=read_only)
        self._settings = settings
        self._positions = positions
        self.name = get_platform(settings)
        self.title = TITLES[self.name]
        kinds = (ISSUES, DISCUSSIONS) if has_discussions(settings) else (ISSUES,)
        self._projects = [Project(name, kind) for name in get_projects(settings) for kind in kinds]
        self._me = Identity()
        self._get_people = get_people
        self._account_faults = list[str]()
        self._woken = asyncio.Event()
        self._woken_names = set[str]()
        self._failures = dict[str, Exception]()
        self.port = 0
        self._known_topics = BoundedDict[tuple[str, str], None](MAX_KNOWN_COMMENTS)
        self._known_comments = BoundedDict[tuple[str, str], float](MAX_KNOWN_COMMENTS)

    @property
    def bot_id(self) -> str:
        """The bot's login, once it is open."""
        return self._me.login

    @property
    def author_ids(self) -> frozenset[str]:
        """The bot's login as ids of people have it, once it is open."""
        return frozenset((self._me.login.lower(),)) - {""}

    def spell_command(self, usage: str) -> str:
        """Return how a command is given: with a mention."""
        return f"`@{self._me.name} /{usage}`"

    async def listen(self, receive: MessageHandler) -> None:
        """Deliver messages until cancelled. Outages are waited out; raises `PlatformError` for a revoked token."""
        secret = self._settings.webhook_secret
        if secret is None:
            await self._poll(receive)
            return
        message = UNREADABLE_WEBHOOK_MESSAGE.replace("{platform}", self.name)
        text = await asyncio.to_thread(read_secret, secret, message)
        if len(text) < MIN_SECRET_CHARS:
            raise TokenRefused(
                f"{self.name}.webhook_secret is too short: give it at least {MIN_SECRET_CHARS} characters"
            )
        async with WebhookServer(self._settings, self.name, text, self._wake).serve() as port:
            self.port = port
            _log.info(f"{self.name}.listening", host=self._settings.host, port=port)
            await self._poll(receive)

    def _wake(self, project: str) -> None:
        """Look at one of the projects at once, or at all if a webhook does not say which it is about."""
        names = {
            item.name
            for item in self._projects
            if not project or remove_number(item.name).casefold() == project.casefold()
        }
        if names:
            self._woken_names |= names
            self._woken.set()

    async def _poll(self, receive: MessageHandler) -> None:
        """Look at all projects in turn, for ever, and in between at those that webhooks are about."""
        retry_loop = self._make_retry_loop("poll", self.connection)
        while True:
            self._take_woken()
            await self._check_accounts()
            await self._look_at(self._projects, receive)
            self._get_client().forget_older_etags()
            if self._is_cut_off():
                await retry_loop.wait(next(iter(self._failures.values())))
            else:
                retry_loop.mark_recovered()
                await self._follow_webhooks(receive)

    async def _follow_webhooks(self, receive: MessageHandler) -> None:
        """Look at the projects that webhooks are about until all are due, or none can be read."""
        due_at = time.monotonic() + self._settings.poll_s
        while not self._is_cut_off() and (left_s := due_at - time.monotonic()) > 0:
            if await wait_for(self._woken, left_s):
                await self._look_at(self._take_woken(), receive)
                # Where people write much, webhooks come often.
                await asyncio.sleep(self._intervals.wake_s)

    def _take_woken(self) -> Sequence[Project]:
        """Return the projects that webhooks were about since the last time."""
        projects = [project for project in self._projects if project.name in self._woken_names]
        self._woken_names.clear()
        self._woken.clear()
        return projects

    def _is_cut_off(self) -> bool:
        """Return whether no project can be read."""
        return len(self._failures) == len(self._projects)

    async def _look_at(self, projects: Sequence[Project], receive: MessageHandler) -> None:
        """Look at some projects. Others do not wait for one that fails, nor do its old failures count."""
        failures = {name: str(error) for name, error in self._failures.items()}
        for project in projects:
            self._failures.pop(project.label, None)
            try:
                await self._look(project, receive)
            except TokenRefused as error:
                await self._check_token(self._get_client().get_identity)
                self._failures[project.label] = error
            except Exception as error:
                # Any error: what could not be saved must be read again.
                self._failures[project.label] = error
        self._note_failures(failures)

    def _make_sink(self, message: Message, delivery: Delivery, previous_reply_id: str) -> Sink:
        return ForgeSink(
            self._client_at(message.reference["topic"]),
            self._me,
            self._settings,
            message,
            delivery,
            check_project=self._check_project,
            previous_reply_id=previous_reply_id,
            intervals=self._intervals,
        )

    def _client_at(self, path: str) -> ForgeClient:
        """Return the client for a kind of topics, or for the topic at a path."""
        client = self._get_client().at(path)
        return make_read_only(client, self.read_only_calls) if self._read_only else client

    async def _connect(self) -> ForgeClient:
        return await connect(self._settings, self._intervals)

    async def _set_up(self, client: ForgeClient) -> None:
        self._me = await self._retry_until_ok(client.get_identity)
        self._accounts = Accounts(self.name, self._me.host, self._positions, self._get_people, self._find_author)
        _log.info(f"{self.name}.open", bot=self._me.login, projects=[project.label for project in self._projects])

    def _hint(self, error: Exception) -> str:
        return "retrying; issues and comments wait on the server"

    def _note_failures(self, earlier: Mapping[str, str]) -> None:
        """Say which projects cannot be read while others can, and what is a fault of ours."""
        is_partial = not self._is_cut_off()
        for name, error in self._failures.items():
            is_fault = not isinstance(error, KimasError)
            if (is_partial or is_fault) and earlier.get(name) != str(error):
                exc_info = error if is_fault else None
                _log.warning(f"{self.name}.project_unreadable", project=name, error=str(error), exc_info=exc_info)
        warnings = [f"cannot read {name}: {error}" for name, error in self._failures.items()]
        self.connection.warning = "; ".join([*warnings, *self._account_faults])

    async def _look(self, project: Project, receive: MessageHandler) -> None:
        """Deliver what is new in a project."""
        current_round = Round()
        try:
            await self._check_project(project.name)
            await self._read_topics(project, receive)
            await self._read_comments(project, current_round, receive)
            await self._read_reactions(project, receive)
        except MessageDeleted as error:
            raise PlatformError(
                f"{project.label} is not there, has moved, or the token may not read it ({error})"
            ) from error

    async def _read_topics(self, project: Project, receive: MessageHandler) -> None:
        """Deliver new topics, the oldest first, once people have had their time; those for the bot at once."""
        client = self._client_at(project.kind)
        position_name = self._position_name(project, "topics")
        position = await self._positions.load(position_name)
        if position is None:
            await self._positions.save(position_name, await client.get_last_number(project.name))
            return
        # What waits, or could not be listed or delivered, has to be listed again although nothing is new.
        is_conditional = project.is_read
        project.is_read = False
        topics = [topic async for topic in client.list_topics(project.name, position, is_conditional=is_conditional)]
        latest_time = time.time() - self._settings.wait_h * S_PER_H
        is_waiting = False
        for topic in sorted(topics, key=lambda topic: topic.number):
            if topic.path:
                message = to_message(self.name, topic, self._me)
                if not message.addressed and topic.created_at > latest_time:
                    is_waiting = True
                    continue
                await self._deliver_topic(topic, message, receive)
            if not is_waiting:
                await self._positions.save(position_name, topic.number)
        project.is_read = not is_waiting

    async def _deliver_topic(self, topic: Topic, message: Message, receive: MessageHandler) -> None:
        key = (topic.project, topic.path)
        if key in self._known_topics:
            return
        reason = get_skip_reason(topic.author, topic.text, self._me, is_by_bot=topic.is_by_bot)
        reason = reason or get_closed_reason(topic) or get_answered_reason(topic, message)
        if not reason and not message.addressed and topic.comment_count:
            comments = await self._client_at(topic.path).list_comments_below(topic.project, topic.path)
            reason = "answered by people" if has_answer_of_people(topic, comments, self._me) else ""
        await self._deliver(IgnoredEvent(reason) if reason else message, receive, "topic")
        self._known_topics[key] = None

    async def _read_comments(self, project: Project, current_round: Round, receive: MessageHandler) -> None:
        """Deliver the comments that changed, the earliest change first. What was there before the first look, or was
        written before what this one goes back to, counts as an edit.
        """
        client = self._client_at(project.kind)
        position_name = self._position_name(project, "changes")
        number_name = self._position_name(project, "comments")
        position = await self._positions.load(position_name)
        first_number = await self._positions.load(number_name)
        if position is None or first_number is None:
            position, first_number = await client.get_last_comment(project.name)
            await self._positions.save(number_name, first_number)
            await self._positions.save(position_name, position)
            return
        since = max(position - OVERLAP_S, 0)
        if not project.has_answers_of_old:
            # What people think of answers from before the start counts as well.
            async for comment in client.list_comments(project.name, max(since - LOOK_BACK_S, 0)):
                self._watch(project, comment)
            project.has_answers_of_old = True
        async for comment in client.list_comments(project.name, since):
            if isinstance(comment, int):
                if comment > position:
                    position = comment
                    await self._positions.save(position_name, position)
            elif comment is None:
                await self._deliver(IgnoredEvent("malformed", is_expected=False), receive, "comment")
            elif isinstance(comment, HiddenTopic):
                await self._close_topic(project, comment.path)
            elif self._known_comments.get((project.name, comment.id)) != comment.updated_at:
                is_old = comment.number <= first_number or int(comment.created_at) < since
                await self._handle_comment(project, comment, current_round, receive, is_old=is_old)
                self._known_comments[project.name, comment.id] = comment.updated_at

    async def _close_topic(self, project: Project, path: str) -> None:
        """Tell what was said below a topic that is hidden by now to nobody else in its project."""
        if await self._positions.close_thread(project.name, path):
            _log.info(f"{self.name}.topic_closed", project=project.name, topic=path)

    async def _close_if_hidden(self, project: Project, answer: Comment) -> None:
        """Look whether an answer is gone because its topic is: that is listed as no change."""
        try:
            is_hidden = (
                await self._client_at(answer.topic_path).get_topic(project.name, answer.topic_path)
            ).is_confidential
        except MessageDeleted:
            is_hidden = True
        if is_hidden:
            await self._close_topic(project, answer.topic_path)

    def _watch(self, project: Project, comment: Comment | HiddenTopic | int | None) -> None:
        """Keep an answer in mind: people may react to it."""
        if isinstance(comment, Comment) and is_own(comment, self._me) and comment.topic_path:
            project.answers[comment.number] = comment

    async def _handle_comment(
        self, project: Project, comment: Comment, current_round: Round, receive: MessageHandler, *, is_old: bool
    ) -> None:
        """Deliver a comment, and its new text where it was changed."""
        self._watch(project, comment)
        is_changed = comment.updated_at > comment.created_at
        if is_old and not is_changed:
            return
        reason = get_skip_reason(comment.author, comment.text, self._me, is_by_bot=comment.is_by_bot)
        if not comment.topic_path:
            reason = "not below an issue"
        message = (
            IgnoredEvent(reason) if reason else await self._convert_comment(comment, project, current_round, is_old)
        )
        await self._deliver(message, receive, "comment")
        if is_changed and not is_old and isinstance(message, Message):
            # It may have been delivered before: then only the new text counts.
            await self._deliver(replace(message, is_edit=True), receive, "comment")

    async def _convert_comment(
        self, comment: Comment, project: Project, current_round: Round, is_edit: bool
    ) -> Message | IgnoredEvent:
        """Convert a comment, with the topic and those above it."""
        try:
            topic, comments = await self._get_thread(project, comment.topic_path, current_round)
        except MessageDeleted:
            await self._close_topic(project, comment.topic_path)
            return IgnoredEvent("below an issue that is gone")
        # Forges copy comments with an issue, and keep their authors and times.
        is_copy = comment.created_at < topic.created_at
        if reason := "copied from elsewhere" if is_copy else get_closed_reason(topic):
            return IgnoredEvent(reason)
        above = [other for other in comments if other.number < comment.number]
        own_numbers = [other.number for other in comments if is_own(other, self._me)]
        answer_count = max(len(own_numbers), project.answer_counts.get(topic.path, 0))
        if answer_count >= self._settings.answers_per_thread:
            return IgnoredEvent(f"{answer_count} answers below this issue already", is_expected=False)
        message = to_comment_message(self.name, topic, comment, above, self._me, is_edit=is_edit)
        if message.quoted_authors == (str(topic.author.number),):
            message = replace(message, quoted_authors=(await self._accounts.get_id(topic.author),))
        if reason := get_answered_reason(topic, message):
            return IgnoredEvent(reason)
        if self._settings.wait_h and not (message.addressed or message.thread_state.is_shared):
            return IgnoredEvent("people answer first")
        # What stands above an answer may have been answered before a restart.
        if message.addressed and not is_edit and comment.number > max(own_numbers, default=0):
            project.answer_counts[topic.path] = answer_count + 1
        return message

    async def _get_thread(self, project: Project, path: str, current_round: Round) -> tuple[Topic, Sequence[Comment]]:
        if path not in current_round.topics:
            client = self._client_at(path)
            topic = await client.get_topic(project.name, path)
            current_round.topics[path] = (topic, await client.list_comments_below(project.name, path))
        return current_round.topics[path]

    async def _read_reactions(self, project: Project, receive: MessageHandler) -> None:
        """Deliver what people think of the newest answers, as far as it changed."""
        now = time.monotonic()
        if now - project.reactions_read_at < self._intervals.reactions_s:
            return
        project.reactions_read_at = now
        found = dict[str, tuple[Comment, Reaction]]()
        client = self._client_at(project.kind)
        async for comment, reaction in client.list_reactions(project.name, list(project.answers.values())):
            if reaction:
                found[reaction.id] = (comment, reaction)
            elif comment.number not in project.gone_answers:
                await self._close_if_hidden(project, comment)
                project.gone_answers.add(comment.number)
        earlier = project.reactions
        for key, (comment, reaction) in (earlier | found).items():
            # Of an answer that newer ones pushed out nothing is read any more: that takes nothing back.
            if (key in found) != (key in earlier) and comment.number in project.answers:
                rating = to_rating(self.name, project.name, comment, reaction, self._me, is_removed=key not in found)
                await self._deliver(rating, receive, "reaction")
        project.reactions = found

    async def _check_project(self, project: str) -> None:
        """Raise `MessageDeleted` if the name of a project is another's now than at the first look."""
        number = get_int(await self._get_client().get_project(project), "id")
        path, _, expected = project.partition(NUMBER_SIGN)
        position_name = f"{self._me.host}:project:{path.lower()}"
        known = int(expected) if expected else await self._positions.load(position_name)
        if known is None:
            await self._positions.save(position_name, number)
        elif known != number:
            raise MessageDeleted(OTHER_PROJECT.format(path=path, number=number))

    async def _check_accounts(self) -> None:
        """Learn whose the logins are that have rights here, and say which of them are another's now."""
        try:
            for login in await self._accounts.list_unresolved():
                try:
                    account = await self._get_client().get_account(login)
                except MessageDeleted:
                    account = Account(login, NOBODY)
                await self._accounts.get_owner(login, account.number)
            faults = await self._accounts.find_faults()
        except KimasError as error:
            # Who writes is told apart in any case, and the next look tries again.
            _log.debug(f"{self.name}.accounts_unresolved", error=str(error))
            return
        for fault in set(faults) - set(self._account_faults):
            _log.warning(f"{self.name}.account_refused", reason=fault)
        self._account_faults = list(faults)

    async def _find_author(self, message: OldMessage) -> int:
        """Return the number of who wrote a message of the journal, 0 where nobody can tell any more."""
        chat, thread, message_id = message
        number = message_id.removeprefix(COMMENT_PREFIX)
        try:
            if chat not in get_projects(self._settings):
                return NOBODY
            await self._check_project(chat)
            if "/" in message_id:
                return (await self._client_at(message_id).get_topic(chat, message_id)).author.number
            if thread and number.isdecimal():
                return (await self._client_at(thread).get_comment(chat, thread, int(number))).author.number
        except (MessageDeleted, Refused, NotAllowed) as error:
            _log.info(f"{self.name}.author_unknown", chat=chat, message=message_id, error=str(error))
        return NOBODY

    def _position_name(self, project: Project, kind: str) -> str:
        return f"{self._me.host}:{self._me.login}:{project.label}:{kind}"

    async def _deliver(self, message: Message | IgnoredEvent, receive: MessageHandler, kind: str) -> None:
        if isinstance(message, Message):
            account = Account(message.author, int(message.author_id))
            message = replace(message, author_id=await self._accounts.get_id(account))
        await self._hand_on(message, receive, kind)


def get_platform(settings: GithubSettings | GitlabSettings) -> str:
    """Return the platform that a section is about."""
    return "github" if isinstance(settings, GithubSettings) else "gitlab"


def has_discussions(settings: GithubSettings | GitlabSettings) -> bool:
    """Return whether the account answers in discussions."""
    return isinstance(settings, GithubSettings) and settings.discussions


def get_projects(settings: GithubSettings | GitlabSettings) -> Sequence[str]:
    """Return the names of the projects in which the account answers."""
    return settings.repositories if isinstance(settings, GithubSettings) else settings.projects


async def connect(settings: GithubSettings | GitlabSettings, intervals: ForgeIntervals) -> ForgeClient:
    """Read the token, or the key of an app, and make a client. Raises `PlatformError`."""
    if isinstance(settings, GitlabSettings):
        headers = await _make_headers(settings.token, "gitlab")
        return GitlabClient(settings, ForgeTransport(settings.api_url, headers, intervals))
    app = await _make_app_client(settings, settings.private_key, intervals) if settings.private_key else None
    headers = await _make_headers(settings.token, "github") if settings.token else {}
    transport = ForgeTransport(settings.api_url, {**HEADERS, **headers}, intervals, app)
    discussions = GithubDiscussions(settings, transport) if settings.discussions else None
    return GithubClient(settings, transport, discussions, app)


async def _make_headers(secret: Secret, platform: str) -> dict[str, str]:
    message = UNREADABLE_MESSAGE.replace("{platform}", platform)
    token = await read_token(secret, message, f"{platform}.token", "access token")
    return {"Authorization": f"Bearer {token}"}


async def _make_app_client(settings: GithubSettings, private_key: Secret, intervals: ForgeIntervals) -> AppClient:
    # Imported here: cryptography is large, and few have an app.
    from bots.forges.app_client import App, AppClient

    key = await asyncio.to_thread(read_secret, private_key, UNREADABLE_KEY_MESSAGE)
    return AppClient(App(settings.app_id, key, remove_number(settings.repositories[0])), settings.api_url, intervals)
