def look(path: str) -> str | None: ...
def made() -> None: ...
def link(numbers: tuple[int, ...]) -> str | None: ...
def link_again() -> bool: ...
def prove_shapes(path: str, /) -> str | None:
    """Begin to find out where the libtorch_cpu.so of this path has shapes: None, or what is missing
    in it."""

def look_at_operators(with_inputs: bool, /) -> None:
    """Note the operators of this thread from now on, with what they are called with or without."""

def tensor(address: int, sizes: tuple[int, ...], strides: tuple[int, ...], type: int, /) -> None:
    """A tensor whose object is there."""

def expect(inputs: tuple[int, ...], /) -> None:
    """The next operator has these tensors, by address; 0: something else."""

def note_shapes(probability: float, /) -> str | None:
    """Note such a share of all calls of operators from now on, with their shapes: None, or what is
    not proven, and none are noted."""

def noted_shapes() -> tuple[list[tuple[str, tuple[int, ...], int]], int]:
    """What was noted, and no more from now on: operator, inputs as shapes.c has them, how often;
    and how many calls found no room."""
