"""json, with hooks that C calls, and the pure Python encoder."""

import json


class Encoder(json.JSONEncoder):
    def default(self, o):
        return str(o)


def hook(pairs):
    return dict(pairs)


def number(text):
    return float(text)


data = {"a": [1, 2.5, {"b": None, "c": [True, False]}], "d": {str(i): i for i in range(30)}}
for _ in range(5):
    text = json.dumps(data, indent=2, sort_keys=True)
    json.loads(text, object_pairs_hook=hook, parse_float=number, parse_int=number)
json.dumps({"x": {1, 2}, "y": object}, cls=Encoder)
