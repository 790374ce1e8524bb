"""Namesakes in several networks of one platform, private chats that become other people's, and roles that are lost."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import rule

from core.storage.overrides import override_key
from tests.security.audience_rules.steps import PLANS, SENDERS
from tests.support.audience_changes import Deployment, Plan
from tests.support.audience_world import MEMBER, OWNER, OWNERS, PLACES, QUESTION, format_said
from tests.support.interleaving import POINTS
from tests.support.recording_bot import Sender

# Those who were and are alone with the bot in one chat.
ALONE = tuple(place for place in PLACES if place.chat == "talk")
NETWORKS = ("", "@shop")


class NetworkRules(Deployment):
    """People and chats that are called as others are."""

    @rule(network=st.sampled_from(NETWORKS), action=st.sampled_from(("add", "remove")), plan=PLANS)
    def appoint_in_a_network(self, network: str, action: str, plan: Plan | None) -> None:
        """An owner of one network appoints; owners of the same id elsewhere are none, nor are namesakes appointed."""
        owner = Sender(f"lobby{network}", f"{OWNER}{network}", "http")
        self.run(self._deliver(owner, f"{action} {MEMBER}", "admins"))
        if network:
            person = ("http@shop", f"{MEMBER}{network}")
            self.truth.admins = self.truth.admins | {person} if action == "add" else self.truth.admins - {person}
        for each in NETWORKS:
            self.run(self._deliver(Sender(f"talk{each}", f"{MEMBER}{each}", "http", is_private=True), QUESTION), plan)

    @rule(network=st.sampled_from(NETWORKS), command=st.sampled_from(("forget", "pause", "admins")))
    def command_as_a_namesake(self, network: str, command: str) -> None:
        """What somebody does in one network happens to nobody in another one."""
        place = Sender(f"lobby{network}", f"{MEMBER}{network}", "http")
        self.run(self._deliver(place, "", command))
        if command == "forget":
            self.truth.forget(place)
        other = Sender("lobby" if network else "lobby@shop", MEMBER if network else f"{MEMBER}@shop", "http")
        self.run(self._deliver(other, QUESTION))

    @rule(
        first=st.sampled_from(ALONE),
        second=st.sampled_from(ALONE),
        is_public=st.booleans(),
        text=st.sampled_from(("And what else is known about it?", QUESTION, "who?")),
        command=st.sampled_from(("", "", "why", "faq", "digest", "escalate")),
        plan=PLANS,
    )
    def let_a_chat_become_anothers(
        self, first: Sender, second: Sender, is_public: bool, text: str, command: str, plan: Plan | None
    ) -> None:
        """What somebody asked alone is told to nobody who has that chat later, alone or with others."""
        self.run(self._deliver(first, format_said(self._say(first))))
        if second != first:
            reader = replace(second, is_private=not is_public)
            self.run(self._deliver(reader, "" if command else text, command), plan)
        self.run(self._deliver(first, text))

    @rule(
        first=st.sampled_from(ALONE),
        second=st.sampled_from(ALONE),
        is_public=st.booleans(),
        point=st.sampled_from(POINTS),
        count=st.integers(0, 12),
    )
    def let_it_become_anothers_meanwhile(
        self, first: Sender, second: Sender, is_public: bool, point: str, count: int
    ) -> None:
        """Somebody else writes in a private chat while its person is answered there."""
        self.run(self._deliver(first, format_said(self._say(first))), Plan(point, count, "intrude", 0))
        self.run(self._deliver(replace(second, is_private=not is_public), "And what else is known about it?"))

    @rule(
        person=st.sampled_from((MEMBER, "43")),
        point=st.sampled_from(POINTS),
        count=st.integers(0, 20),
        sender=SENDERS,
    )
    def lose_a_role(self, person: str, point: str, count: int, sender: Sender) -> None:
        """An administrator asks in private, and is none any more before the answer is there."""
        place = Sender(person, person, is_private=True)
        self.run(self._set(self._at(PLACES[1]), override_key("admin", person), "1"))
        self.truth.admins.add(("telegram", person))
        self.run(self._deliver(place, QUESTION))
        pick = next(index for index in range(2) if ("43", MEMBER)[index] == person)
        self.run(self._deliver(place, "And what else is known about it?"), Plan(point, count, "demote", pick))
        self.run(self._deliver(place, "And what else is known about it?"))
        self.run(self._deliver(sender, QUESTION))

    @rule(
        command=st.sampled_from(("", "", "why", "digest", "audit", "faq", "stats", "status", "sources", "settings")),
        point=st.sampled_from(POINTS),
        count=st.integers(0, 20),
    )
    def lose_ownership(self, command: str, point: str, count: int) -> None:
        """An owner asks for what all chats said, or what is closed, and is none any more before it is there."""
        place = Sender("office@shop", f"{OWNER}@shop", "http", is_private=True)
        self.run(self._deliver(place, "" if command else QUESTION, command), Plan(point, count, "dismiss", 0))
        for each in ("why", "digest", ""):
            self.run(self._deliver(place, "" if each else "And what else is known about it?", each))
        if self.truth.owners != OWNERS:
            self._restart(replace(self.configuration, owners=OWNERS))
