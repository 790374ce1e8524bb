"""The JSON Schema of the configuration, for editors that check YAML: `python -m core.settings.schema` prints it."""

from __future__ import annotations

import json
import sys

from core.settings import Settings


def json_schema() -> str:
    """Return the schema of a configuration file as indented JSON, with a newline at its end."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **Settings.model_json_schema()}
    schema["title"] = "KIMAs configuration"
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(json_schema())
