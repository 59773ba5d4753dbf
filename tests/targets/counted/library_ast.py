"""ast: parsing, visiting, transforming, unparsing."""

import ast

SOURCE = '''
def f(a, b=2, *args, **kwargs):
    """Text."""
    for x in range(a):
        if x % 2 and b:
            yield [y ** 2 for y in args if y]
    return {"k": lambda z: z + 1, **kwargs}


class C(list):
    @property
    def p(self):
        try:
            return f"{self!r:>10}"
        except (ValueError, KeyError) as e:
            raise RuntimeError from e
'''


class Names(ast.NodeVisitor):
    def __init__(self):
        self.found = []

    def visit_Name(self, node):
        self.found.append(node.id)
        self.generic_visit(node)


class Doubled(ast.NodeTransformer):
    def visit_Constant(self, node):
        return ast.Constant(node.value * 2) if isinstance(node.value, int) else node


tree = ast.parse(SOURCE)
Names().visit(tree)
ast.unparse(Doubled().visit(tree))
list(ast.walk(tree))
ast.dump(tree)
