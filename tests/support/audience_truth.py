"""Who may be told what, kept apart from the bot: what the state machine over audiences compares it with."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from core.types import ConversationKey, PlatformName
from tests.support.audience_world import (
    ANSWERED,
    CLOSED_WORDS,
    MOVED_PUBLIC,
    NAMES,
    NUMBERED,
    OWNERS,
    PARTS_NAMES,
    PUBLIC,
    SECRET_WORD,
    TEAM,
    Configuration,
)
from tests.support.recording_bot import Sender

_PERSONAL = re.compile(r"kultarr\d+|potoroo\d+x|woylie\d+x")


@dataclass
class Truth:
    """Who may see what. It implements `tests.support.interleaving.Judge`."""

    # Of the configuration at the start, and of all that were loaded since; also of the source of included files.
    audiences: list[tuple[str, ...]]
    parts: list[tuple[str, ...]] = field(default_factory=list)
    # What the closed source is called, and was called when a number was written into its file, as far as it was closed
    # then; and the number that stands in the included file.
    name: str = NAMES[0]
    names_then: dict[int, str] = field(default_factory=dict)
    part_number: int = 1
    # Who was the last to write in a chat over HTTP, alone with the bot; "" for somebody who was not.
    holders: dict[str, str] = field(default_factory=dict)
    owners: tuple[str, ...] = OWNERS
    # The network and the id.
    admins: set[tuple[str, str]] = field(default_factory=set)
    # The words of lessons: the chat in which people said them, and whether they may tell of the closed source.
    lessons: dict[str, tuple[str, bool]] = field(default_factory=dict)
    # The words of people, where they said them; and those of who was forgotten there.
    said: dict[str, Sender] = field(default_factory=dict)
    forgotten: set[str] = field(default_factory=set)
    # The threads in which words were said, and those that a part of their chat reads.
    threads: dict[str, ConversationKey] = field(default_factory=dict)
    closed_threads: set[ConversationKey] = field(default_factory=set)
    # The chats where others have brought words of somebody.
    carried: dict[str, set[tuple[str, str]]] = field(default_factory=dict)
    muted: set[str] = field(default_factory=set)
    local: set[str] = field(default_factory=set)
    # Chats where the file lets nobody be answered in public.
    silent: set[str] = field(default_factory=set)
    # Chats that were shared with people of other organizations.
    shared: set[str] = field(default_factory=set)
    # Messages that somebody deleted, by their chat and id.
    deleted: set[tuple[str, str]] = field(default_factory=set)
    general_models: tuple[str, ...] = ()
    has_moved: bool = False
    # What people are called, by where they write; somebody who was forgotten comes back under another name.
    names: dict[tuple[str, str, str], str] = field(default_factory=dict)
    named: int = 0

    @property
    def is_open(self) -> bool:
        """Return whether the source is for everyone."""
        return all("everyone" in audience for audience in self.audiences)

    def sees(self, sender: Sender) -> bool:
        """Return whether somebody may see the closed source where they write."""
        return all(self._belongs(sender, audience) for audience in self.audiences)

    def sees_parts(self, sender: Sender) -> bool:
        """Return whether somebody may see the included file where they write."""
        return all(self._belongs(sender, audience) for audience in self.parts)

    def _belongs(self, sender: Sender, audience: tuple[str, ...]) -> bool:
        network = PlatformName(sender.platform, sender.chat).network
        # Visitors of the page are no programs.
        is_outside = sender.chat == "page" or f"{sender.platform}:{sender.chat}" in self.shared
        if not {"everyone", f"{sender.platform}:{sender.chat}", "" if is_outside else network}.isdisjoint(audience):
            return True
        is_admin = sender.is_private and (network, sender.author) in self.admins
        return self.is_all_seeing(sender) or ("admins" in audience and is_admin)

    def note_writer(self, person: Sender) -> None:
        """Note who has written: over HTTP a private chat is that of who writes there."""
        if person.platform == "http":
            self.holders[person.chat] = person.author if person.is_private else ""

    def is_all_seeing(self, place: Sender) -> bool:
        """Return whether an owner reads something alone."""
        return place.is_private and f"{place.platform}:{place.author}" in self.owners

    def get_name(self, person: Sender) -> str:
        """Return what somebody is called where they write."""
        place = (person.platform, person.chat, person.author)
        if place not in self.names:
            self.named += 1
            self.names[place] = f"woylie{self.named}x"
        return self.names[place]

    def forget(self, person: Sender) -> None:
        """Note that somebody is forgotten in a chat."""
        place = (person.platform, person.chat, person.author)
        if name := self.names.pop(place, ""):
            self.forgotten.add(name)
        words = {word for word, said in self.said.items() if (said.platform, said.chat, said.author) == place}
        self.forgotten |= words
        for word in words:
            del self.said[word]

    def read(self, configuration: Configuration) -> None:
        """Note what the file says at a start."""
        self.audiences = [configuration.audience]
        self.parts = [] if configuration.parts is None else [configuration.parts]
        self.name = configuration.name
        self.owners = configuration.owners
        self.local = set(configuration.local)
        self.silent = {*configuration.off, *configuration.asker}
        if self.has_moved:
            self._follow()

    def _follow(self) -> None:
        """Note that what the file and commands say of a group's former id holds for both."""
        for chats in (self.local, self.muted, self.silent):
            if f"telegram:{PUBLIC}" in chats:
                chats.add(f"telegram:{MOVED_PUBLIC}")

    def move(self) -> None:
        """Note that the public group has another id."""
        self.has_moved = True
        self._follow()
        for platform, chat, author in [place for place in self.names if place[1] == PUBLIC]:
            self.names[platform, MOVED_PUBLIC, author] = self.names.pop((platform, chat, author))
        for word, said in self.said.items():
            if said.chat == PUBLIC:
                self.said[word] = Sender(MOVED_PUBLIC, said.author)
        for word, (chat, is_closed) in self.lessons.items():
            if chat == f"telegram:{PUBLIC}":
                self.lessons[word] = (f"telegram:{MOVED_PUBLIC}", is_closed)

    def forget_everywhere(self, person: Sender) -> None:
        """Note that somebody is forgotten in all chats of a platform."""
        places = {*self.names, *((said.platform, said.chat, said.author) for said in self.said.values())}
        for platform, chat, author in places:
            if (platform, author) == (person.platform, person.author):
                self.forget(Sender(chat, author, platform))

    def find_leaks(self, place: Sender, text: str) -> set[str]:
        """Return the words in what was shown or asked for somebody that they may not see."""
        text = text.lower()
        if place.is_private and place.platform == "http":
            holder = self.holders.get(place.chat, place.author)
            place = place if holder == place.author else Sender(place.chat, holder, place.platform)
        is_insider = self.sees(place)
        hidden = {SECRET_WORD, *(() if is_insider else (*CLOSED_WORDS, *NAMES))}
        hidden |= set() if self.sees_parts(place) else set(PARTS_NAMES)
        words = {word for word in hidden | self.forgotten if word in text}
        words |= {word for word, said in self.said.items() if word in text and not self._may_retell(word, said, place)}
        words |= {match[0] for match in NUMBERED.finditer(text) if not self._is_read(place, match[1], int(match[2]))}
        chat = f"{place.platform}:{place.chat}"
        for word, (origin, is_closed) in self.lessons.items():
            if is_closed and word in text and not is_insider and origin != chat:
                words.add(word)
        return words

    def _may_retell(self, word: str, said: Sender, place: Sender) -> bool:
        """Return whether what was said somewhere may be told elsewhere: a team reads of questions in other groups."""
        if (place.platform, place.chat) in self.carried.get(word, ()) or self.is_all_seeing(place):
            return True
        is_here = (said.platform, said.chat) == (place.platform, place.chat)
        if said.is_private:
            return is_here and said.author == place.author
        return is_here or (place.platform, place.chat) == ("telegram", TEAM)

    def _is_read(self, place: Sender, kind: str, number: int) -> bool:
        """Return whether somebody may be told what was written into a file with a number."""
        if kind == "pademelon":
            return self.sees_parts(place)
        # Under another name it is another source, of whose answers nothing is told.
        return self.names_then.get(number, self.name) == self.name or self.is_all_seeing(place)

    def find_out_of_thread(self, place: Sender, thread: str, text: str) -> set[str]:
        """Return the words in a text that were said in other threads, which not everybody in the chat reads."""
        here = ConversationKey(place.platform, place.chat, thread)
        said = {word: key for word, key in self.threads.items() if key in self.closed_threads and key != here}
        return set() if self.is_all_seeing(place) else {word for word in said if word in text}

    def find_in_records(self, text: str) -> set[str]:
        """Return the words of people and documents in what is no place for them: a line of the log, a span, a metric.

        Names of sources may be there.
        """
        words = (CLOSED_WORDS[0], "pademelon", SECRET_WORD, ANSWERED)
        return {word for word in words if word in text} | set(_PERSONAL.findall(text))

    def find_unwanted(self, place: Sender, text: str, *, is_comment: bool) -> set[str]:
        """Return the mark of an answer in a chat where there is to be none. Comments have chats of their own."""
        chats = self.muted if is_comment else self.muted | self.silent
        return {ANSWERED} if ANSWERED in text and f"{place.platform}:{place.chat}" in chats else set()

    def find_wrong_model(self, place: Sender, url: str) -> set[str]:
        """Return the address of a model that reads nothing of a place any more."""
        is_wrong = f"{place.platform}:{place.chat}" in self.local and url.startswith(self.general_models)
        return {url} if is_wrong else set()
