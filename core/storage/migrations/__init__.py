"""Alembic's revisions: they upgrade the tables of a journal since version 0.2.0 to those in `tables.py`.

To change the schema, change `tables.py`, add `versions/vNNNN_*.py` after the last one, and name it in `engine.HEAD`.
"""
