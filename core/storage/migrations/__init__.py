"""Alembic's revisions: what brings the tables of an older journal up to those in `tables.py`.

To change the schema, change `tables.py`, add `versions/vNNNN_*.py` behind the last one, and name it in `engine.HEAD`.
"""
