"""Finds docstrings of classes, functions and methods that are no sentences: fragments.

python scripts/docstrings.py    name those below pyhybrid/; fail if there are any

A first sentence ends with one of `.?:` and begins with a capital letter, a digit, or a name in
quotes.  It is an imperative (a new verb goes into VERBS), or a statement or a question with a
finite verb, which is not that of a relative clause.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

CLONE = Path(__file__).parents[1]
PHRASES = re.compile(  # words that begin them
    r"""After|Along|Among|As|At|Before|Behind|Below|Beside|Between|By|During|For|From|How|If|In|
    Inside|Into|Like|Of|On|Out|Over|Since|Than|That|These|Those|To|Until|What|When|Where|Whether|
    Which|While|Whose|Who|Why|Within|Without|With""",
    re.VERBOSE,
)
VERBS = re.compile(  # of commands, whose docstrings are their help, those in -s
    r"""Accept|Activate|Add|Answer|Append|Ask|Assemble|Await|Become|Begin|Build|Call|Change|Check|
    Choose|Claim|Clear|Close|Collect|Compares?|Convert|Copy|Count|Create|Cut|Decide|Declare|Decode|
    Describe|Discard|Divide|Do|Drop|Emit|Encode|End|Enter|Execute|Explain|Export|Fill|Find|Finish|
    Fold|Follow|Forget|Fork|Format|Give|Go|Group|Hang|Hide|Hold|Import|Insert|Keep|Lay|Leave|Let|
    Limit|Link|List|Load|Look|Makes?|Map|Mark|Match|Measure|Merge|Move|Name|Narrow|Note|Number|Open|
    Order|Pack|Parse|Pause|Place|Plan|Prepare|Prints?|Profile|Puts?|Raise|Read|Record|Reduce|Refuse|
    Register|Release|Remove|Replace|Report|Reset|Resolve|Restore|Resume|Return|Runs?|Search|See|
    Select|Send|Settle|Set|Shorten|Shows?|Skip|Sort|Split|Stand|Start|Stop|Store|Subtract|Sum|Switch|
    Take|Treat|Try|Turn|Unpack|Update|Use|Wait|Walk|Watch|Wrap|Writes?|Yield""",
    re.VERBOSE,
)
FINITE = re.compile(
    r"(?<!that )(?<!which )(?<!who )(?<!what )(?<!where )\b"
    r"(?:is|are|was|were|has|have|had|does|did|do|can|may|must|never|will|would|holds|makes|takes)\b",
    re.IGNORECASE,
)


def first_sentence(text: str) -> str:
    """Return it in one line, with what ends it; all of the first paragraph, if nothing does."""
    paragraph = " ".join(text.split("\n\n")[0].split())
    found = re.match(r".*?(?<!\.\.)[.?:](?=\s|$)", paragraph)
    return found[0] if found else paragraph


def fault(text: str) -> str:
    """Return why the docstring begins with no sentence; "": it does."""
    sentence = first_sentence(text)
    if not sentence.endswith((".", "?", ":")):
        return "its first sentence has no end"
    if not re.match(r"[A-Z0-9`'\"%(]", sentence):
        return "it begins with a small letter"
    word = sentence.split()[0].rstrip(",.:;?")
    if PHRASES.fullmatch(word):
        return f"{word!r} begins a fragment"
    if not VERBS.fullmatch(word) and not FINITE.search(sentence):
        return f"no finite verb, and {word!r} is no known imperative (VERBS)"
    return ""


def faults(text: str) -> Iterator[tuple[int, str]]:
    """Yield line and fault of each docstring of a module's classes, functions and methods."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found = ast.get_docstring(node)
            if found is not None and (why := fault(found)):
                yield node.lineno, f"{node.name}: {why}: {first_sentence(found)}"


def main() -> int:
    """Print the faults of the tree; returns the exit code."""
    n_faults = 0
    for path in sorted((CLONE / "pyhybrid").rglob("*.py")):
        for line, why in sorted(faults(path.read_text())):
            print(f"{path.relative_to(CLONE)}:{line}: {why}")
            n_faults += 1
    return 1 if n_faults else 0


if __name__ == "__main__":
    sys.exit(main())
