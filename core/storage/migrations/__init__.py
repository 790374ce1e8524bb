"""Alembic's revisions: they upgrade the tables of an older journal to those in `tables.py`.

To change the schema, change `tables.py`, add `versions/vNNNN_*.py` after the last one, and name it in `engine.HEAD`.
"""
