"""Conditions under which lancedb is imported: quietly, and without what it loads for other uses."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

REST_CLIENT = "lance_namespace_urllib3_client"


@contextmanager
def light_import() -> Iterator[None]:
    """Let the block import lancedb without executing the REST client it never uses here: 2 seconds instead of 3.5.

    Inside, the client's package is an unexecuted stand-in: its models are imported from it, its endpoints are not.
    LanceDB reads its log level from the environment once, at this moment; the user's own setting wins.
    """
    spec = importlib.util.find_spec(REST_CLIENT) if REST_CLIENT not in sys.modules else None
    quiet = "LANCEDB_LOG" not in os.environ
    if spec is not None:
        sys.modules[REST_CLIENT] = importlib.util.module_from_spec(spec)
    if quiet:
        os.environ["LANCEDB_LOG"] = "error"
    try:
        yield
    finally:
        if spec is not None:
            sys.modules.pop(REST_CLIENT, None)
        if quiet:
            os.environ.pop("LANCEDB_LOG", None)
