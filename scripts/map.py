"""The map of the source: one line a file, which is the first sentence of the file's own head.

python scripts/map.py           print it, as Markdown
python scripts/map.py --check   name the files without a head, those that are not there though pages
                                for who works here name them, what comments name in a module and is
                                not there, and unit tests of no module; fail if there are any
"""

import re
import subprocess
import sys
from itertools import takewhile
from pathlib import Path

CLONE = Path(__file__).parents[1]
ROOMS = ("src", "pyhybrid", "scripts", "examples")
_COLUMNS = 150
_PYTHONS = re.compile(r"Python\.h|pycore_")  # headers of CPython's
_NAMED = re.compile(r"(?<![\w./`-])([a-z_]+)\.([A-Za-z_]\w*)\b(?!\.(?:py|c|h)\b)")
_OTHERS = {"torch", "numpy", "pandas", "pytest", "pyhybrid", "module", "pkg", "_columns", "_native"}
_SUFFIXES = {
    *("py", "c", "h", "ts", "js", "css", "html", "toml", "sql", "json", "so", "txt", "gz", "pb"),
    *("pyhybrid", "part", "folded", "pstats", "data", "map"),
    "kptr_restrict",  # of the kernel
}
_SUBJECTS = {  # of unit tests that try several modules at once
    *("bare", "docs", "exact_exporters", "min_time", "old_profiles", "perf_records"),
    *("training_findings", "viewer_exports"),
}


def files() -> list[Path]:
    """The source files that git knows, or will know, and that are here."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *ROOMS]
    out = subprocess.run(listed, cwd=CLONE, capture_output=True, text=True, check=True).stdout
    kinds = {".c", ".h", ".py", ".sh", ".sql"}
    found = {Path(line) for line in out.splitlines()}
    return sorted(path for path in found if path.suffix in kinds and (CLONE / path).exists())


def head(path: Path) -> str:
    """The first paragraph of the docstring or of the comment at the top; empty: it has none."""
    text = (CLONE / path).read_text()
    if path.suffix == ".py":
        found = re.match(r'\s*(?:#!.*\n)?"""(.*?)"""', text, re.DOTALL)
        comment = found[1] if found else ""
    elif path.suffix in {".c", ".h"}:
        found = re.match(r"\s*/\*(.*?)\*/", text, re.DOTALL)
        comment = re.sub(r"^\s*\* ?", "", found[1], flags=re.MULTILINE) if found else ""
    else:
        mark = "--" if path.suffix == ".sql" else "#"
        lines = takewhile(lambda line: line.startswith(mark), text.splitlines())
        comment = "\n".join(line.removeprefix(mark).strip() for line in lines if line[:2] != "#!")
    return " ".join(comment.strip().split("\n\n")[0].split())


def sentence(path: Path) -> str:
    """The first sentence of its head, cut where it is long; empty: it has none.

    An implementation without a head of its own, or whose head has sources alone, is that of the
    header of its name, else of the one that it includes first.
    """
    text = head(path)
    is_bare = path.suffix == ".c" and (not text or text.startswith("Source"))
    if is_bare and (CLONE / path.with_suffix(".h")).exists():
        return f"the code of `{path.stem}.h`"
    if is_bare:
        included = re.search(r'#include "(?:.*/)?(.+)"', (CLONE / path).read_text())
        return f"the code of `{included[1]}`" if included else ""
    found = re.match(r"(.+?[.:])(?= [A-Z`]|$)", text)
    first = (found[1] if found else text).rstrip(".:").replace("|", "/").replace("*", r"\*")
    return first if len(first) <= _COLUMNS else first[:_COLUMNS].rsplit(" ", 1)[0] + " …"


def tables() -> list[str]:
    """The whole map, in Markdown: a table for each room."""
    lines: list[str] = []
    room = None
    for path in sorted(files(), key=lambda path: (path.parent, path.name)):
        if path.parent != room:
            room = path.parent
            lines += ["", f"## `{room}/`", "", "| file | what it is for |", "|---|---|"]
        lines.append(f"| `{path.name}` | {sentence(path)} |")
    return lines


def missing() -> list[tuple[str, str]]:
    """Files that the pages for who works here name and that are not there: page and name."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    out = subprocess.run(listed, cwd=CLONE, capture_output=True, text=True, check=True).stdout
    known = [line for line in out.splitlines() if (CLONE / line).exists()]
    found = []
    explained = sorted(line for line in known if line.startswith("docs/explanation/"))
    for page in ("ARCHITECTURE.md", "CONTRIBUTING.md", *explained):
        text = (CLONE / page).read_text()
        for name in dict.fromkeys(re.findall(r"`([\w./-]*\w\.(?:py|c|h|sh|sql|toml))`", text)):
            if not any(f"/{path}".endswith(f"/{name.lstrip('/')}") for path in known):
                found.append((page, name))
    return [each for each in found if not _PYTHONS.match(each[1])]


def python_text(path: Path) -> tuple[str, list[tuple[int, str]]]:
    """A Python file's code without its comments and docstrings; these, with their lines."""
    text = (CLONE / path).read_text()
    prose: list[tuple[int, str]] = []

    def taken(found: re.Match[str]) -> str:
        prose.append((text.count("\n", 0, found.start()) + 1, found[0]))
        return "\n" * found[0].count("\n")

    code = re.sub(r'^ *r?"""(?:.|\n)*?"""|(?<=\s)#[^\n]*', taken, text, flags=re.MULTILINE)
    return code, prose


def stale() -> list[str]:
    """Names of ours in comments and docstrings, `module.name`, of which there is no such module or
    no such name in it."""
    texts = {path: python_text(path) for path in files() if path.suffix == ".py"}
    modules: dict[str, str] = {}
    for path, (code, _) in texts.items():
        name = path.parent.name if path.stem == "__init__" else path.stem
        modules[name] = modules.get(name, "") + code
    found = []
    for path, (_, prose) in texts.items():
        for line, text in prose if path.parts[0] == "pyhybrid" else ():
            for named in _NAMED.finditer(text):
                module, name = named.groups()
                known = modules.get(module)
                if module in sys.stdlib_module_names or module in _OTHERS or name in _SUFFIXES:
                    continue
                if known is None and not (name[0].isupper() or "_" in name):
                    continue  # an attribute, a file
                if known is None or not re.search(rf"\b{name}\b", known):
                    found.append(f"{path}:{line}: there is no {named[0]}")
    return found


def tests_of_nothing() -> list[str]:
    """Unit tests that bear no module's name, nor one of a subject of several."""
    known = {path.stem for path in files()} | {path.parent.name for path in files()}
    tests = (CLONE / "tests" / "unit").glob("test_*.py")
    return [
        f"{path.relative_to(CLONE)}: there is no module {name}"
        for path in sorted(tests)
        if (name := path.stem.removeprefix("test_")) not in known | _SUBJECTS
    ]


def main() -> int:
    """Print or check; returns the exit code."""
    if "--check" not in sys.argv:
        print("\n".join(tables()))
        return 0
    bare = [str(path) for path in files() if not sentence(path)]
    for path in bare:
        print(f"{path}: the head is missing that says what the file is for")
    gone = missing()
    for page, name in gone:
        print(f"{page}: there is no file {name}")
    names = stale() + tests_of_nothing()
    print("\n".join(names), end="\n" * bool(names))
    return 1 if bare or gone or names else 0


if __name__ == "__main__":
    sys.exit(main())
