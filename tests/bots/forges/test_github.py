"""What GitHub says of an issue or a comment."""

from __future__ import annotations

import pytest

from bots.forges.client import Identity
from bots.forges.convert import to_comment_message, to_message
from bots.forges.github import _to_comment, _to_topic

ME = Identity("kimas-bot", "github.example")
TIMES = {"created_at": "2026-11-28T08:00:00Z", "updated_at": "2026-11-28T08:00:00Z"}
ITEM = {"number": 1, "id": 5, "title": "Help", "state": "open", "user": {"login": "ann", "type": "User"}, **TIMES}
COMMENT = {**ITEM, "issue_url": "https://github.example/repos/a/b/issues/1"}


@pytest.mark.parametrize(("app", "is_relayed"), [({"slug": "importer"}, True), (None, False)])
def test_what_an_app_wrote_in_a_persons_name_has_not_her_rights(app: object, is_relayed: bool) -> None:
    fields = {"body": "@kimas-bot /admins add eve", "performed_via_github_app": app}
    topic = _to_topic("a/b", {**ITEM, **fields})
    assert to_message("github", topic, ME).is_forwarded == is_relayed
    comment = _to_comment({**COMMENT, **fields})
    assert to_comment_message("github", topic, comment, (), ME, is_edit=False).is_forwarded == is_relayed
