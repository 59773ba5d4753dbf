"""Classes: construction, operators, metaclasses, descriptors, `super`, `__del__`."""


class Meta(type):
    def __new__(mcs, name, bases, namespace):
        return super().__new__(mcs, name, bases, namespace)

    def __call__(cls, *args):
        return super().__call__(*args)


class Base(metaclass=Meta):
    def __init__(self, x):
        self.x = x

    def value(self):
        return self.x


class Number(Base):
    __slots__ = ()

    def __new__(cls, x):
        return super().__new__(cls)

    def __init__(self, x):
        super().__init__(x)

    def value(self):
        return super().value()

    def __add__(self, other):
        return Number(self.x + other.x)

    def __lt__(self, other):
        return self.x < other.x

    def __eq__(self, other):
        return self.x == other.x

    def __hash__(self):
        return hash(self.x)

    def __getitem__(self, i):
        if i > 3:
            raise IndexError
        return i

    def __getattr__(self, name):
        return name

    def __len__(self):
        return self.x % 5

    def __iter__(self):
        return iter(range(self.x % 3))

    def __del__(self):
        noted(self)


def noted(x):
    return x


class Plain:
    def __init__(self, x):
        self.x = x


numbers = [Number(i) for i in range(40)]
sorted(numbers)
sum(numbers, Number(0))
{n: n.value() for n in numbers}
for n in numbers:
    n.missing
    len(n), list(n), n == n, bool(n), 2 in n
for i in range(100):
    Plain(i)
del numbers, n
