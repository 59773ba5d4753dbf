"""Writes a TOML file as JSON: table_as_json.py INPUT OUTPUT."""

import json
import sys
import tomllib

with open(sys.argv[1], "rb") as toml, open(sys.argv[2], "w") as output:
    json.dump(tomllib.load(toml), output)
