"""Writes the page's types, web/src/records.ts, of the records that it gets: page_types.py OUTPUT.

It reads their source, and needs nothing that is built.
"""

import ast
import sys
from pathlib import Path

CLONE = Path(__file__).parents[1]
ROOTS = "Meta", "ComparisonMeta"
READ = (
    *("report/run_parts.py", "report/summary.py", "report/step_listing.py"),
    *("views/findings/__init__.py", "views/gpu.py", "views/processes.py", "views/waits.py"),
    *("views/lines/program_lines.py", "views/lines/python_lines.py", "views/training/compiles.py"),
    *("exporters/html.py", "exporters/page/diff.py"),
)
PLAIN = {"str": "string", "int": "number", "float": "number", "bool": "boolean", "None": "null"}
UNKNOWN = "Any", "object"
LEFT_OUT = "LEFT_OUT"  # of exporters/html.py: what the page gets no summary of


class Types:
    """The classes that fields name, and what is left out of a summary."""

    def __init__(self) -> None:
        self.classes: dict[str, ast.ClassDef] = {}
        self.left_out: tuple[str, ...] = ()
        self.comments: dict[tuple[str, int], str] = {}  # by class and line
        for path in READ:
            text = (CLONE / "pyhybrid" / path).read_text()
            lines = text.splitlines()
            for node in ast.parse(text).body:
                if isinstance(node, ast.ClassDef):
                    if node.name in self.classes:
                        raise SystemExit(f"{path}: another {node.name} is declared, too")
                    self.classes[node.name] = node
                    for field in _fields(node):
                        _, _, comment = lines[field.lineno - 1].partition("  # ")
                        self.comments[node.name, field.lineno] = comment
                elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == LEFT_OUT:
                    self.left_out = ast.literal_eval(node.value)
        self.named: list[str] = list(ROOTS)

    def text(self) -> str:
        """The file."""
        head = "// Made by scripts/page_types.py of what Python declares; not to be edited.\n"
        return head + "".join(self._interface(name) for name in self.named)  # which grows

    def _interface(self, name: str) -> str:
        node = self.classes[name]
        doc = " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split())
        lines = [f"\n/** {doc} */", f"export interface {name} {{"]
        for field in _fields(node):
            key = ast.unparse(field.target)
            if name == "Summary" and key in self.left_out:
                continue
            if comment := self.comments[name, field.lineno]:
                lines.append(f"  /** {comment} */")
            lines.append(f"  {key}: {self._type(field.annotation)};")
        return "\n".join([*lines, "}", ""])

    def _type(self, kind: ast.expr) -> str:
        if isinstance(kind, ast.BinOp):
            return f"{self._type(kind.left)} | {self._type(kind.right)}"
        if isinstance(kind, ast.Subscript):
            of = kind.slice.elts if isinstance(kind.slice, ast.Tuple) else [kind.slice]
            types = [self._type(each) for each in of]
            match ast.unparse(kind.value):
                case "list":
                    return f"({types[0]})[]" if "|" in types[0] else f"{types[0]}[]"
                case "dict":
                    return f"Record<{', '.join(types)}>"
                case "tuple":
                    return f"[{', '.join(types)}]"
        name = ast.unparse(kind)
        if name in UNKNOWN:
            return "unknown"
        if name not in PLAIN and name not in self.named:
            self.named.append(name)
        return PLAIN.get(name, name)


def _fields(node: ast.ClassDef) -> list[ast.AnnAssign]:
    return [each for each in node.body if isinstance(each, ast.AnnAssign)]


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(Types().text())
