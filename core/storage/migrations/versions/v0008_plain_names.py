"""Tables, columns and labels are named by what they hold."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

_COLUMNS = {
    "messages": {"seen": "image_description"},
    "feeds": {"looked_at": "polled_at", "known": "known_ids"},
    "replies": {"made_by": "fingerprint", "sense": "canonical_form", "asked": "text"},
    "refreshes": {"made_by": "fingerprint"},
    "audit": {"what": "subject"},
}
# Tables, old and new names of their indexes, the columns of these, and whether they are unique.
_INDEXES = (
    ("replies", "replies_sense", "replies_canonical_form", ["scope", "canonical_form"], False),
    ("taught_answers", "learned_state", "taught_answers_state", ["state"], False),
    ("taught_answers", "learned_lesson", "taught_answers_lesson", ["platform", "chat", "lesson"], True),
)
_LABELS = {
    "kept": "taught_answer",
    "people": "human_activity",
    "rate": "rate_limit",
    "rivals": "competing_bots",
    "wordless": "no_text",
}


def upgrade() -> None:
    """Rename what has an old name still; a table that is made with the new names stays as it is."""
    inspector = sa.inspect(op.get_bind())
    for table, names in _COLUMNS.items():
        existing_names = {column["name"] for column in inspector.get_columns(table)}
        for old_name, new_name in names.items():
            if old_name in existing_names:
                op.alter_column(table, old_name, new_column_name=new_name)
    if inspector.has_table("learned"):
        op.rename_table("learned", "taught_answers")
    # It answers from what it has read before.
    inspector = sa.inspect(op.get_bind())
    for table, old_name, new_name, columns, is_unique in _INDEXES:
        existing_names = {str(index["name"]) for index in inspector.get_indexes(table)}
        if old_name in existing_names:
            op.drop_index(old_name, table)
        if new_name not in existing_names:
            op.create_index(new_name, table, columns, unique=is_unique)
    detail = sa.table("messages", sa.column("detail", sa.String))
    for old_label, new_label in _LABELS.items():
        op.execute(detail.update().where(detail.c.detail == old_label).values(detail=new_label))
