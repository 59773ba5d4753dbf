"""re: compiling (recursive, pure Python), and substitution with a function."""

import re


def replaced(match):
    return match.group().upper()


re.purge()
for pattern in (r"(\w+)\s(?P<b>[a-z]{2,5})", r"(a|b)*c?", r"[^\W\d_]+(?=x)", r"(?i:foo|bar)+?"):
    re.compile(pattern)
    re.sub(pattern, replaced, "foo bar aab cx foobarx")
re.split(r"\d", "a1b2c3")
