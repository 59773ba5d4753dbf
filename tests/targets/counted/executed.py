"""exec, eval and compile: code objects that come and go."""

for i in range(50):
    space = {}
    exec(f"def made(x):\n    return x + {i}\nmade(1)\nresult = [made(j) for j in range(3)]", space)
    space["made"](2)
    eval("(lambda y: y * 2)(3)")


class Visitor:
    def visit(self, n):
        return eval("self.visit(n - 1) if n else 0")


Visitor().visit(20)
