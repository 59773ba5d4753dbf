"""Follows the steps of a training while the program runs, by the begins of functions that are
phases; and which rank the process is.

A step begins with what brings data or a forward pass, after an optimizer ran, on the thread that
trains; where nothing is trained, with each forward pass.  All this runs in callbacks, so nothing of
it is counted; what fails ends the following, not the program.
"""

import json
import sys
from _thread import get_ident
from collections.abc import Callable, Collection, Mapping, Sequence
from types import CodeType, FrameType, ModuleType

from pyhybrid.base.light import suppress
from pyhybrid.frameworks import torch as names

_BEGINS = ("data", "forward")  # the phases with one of which a step begins
_LAST_LOOK = 4096  # functions after which a process that has no rank gets none, either


class Steps:
    """Follow them; those who want to know are subclasses."""

    def __init__(
        self, others: Mapping[str, Sequence[str]] | None = None, more: Collection[str] = ()
    ) -> None:
        """Prepare it.  `others`: functions that are no phases, as in torch.toml, by what is made
        known as they begin; `more`: other phases that are to be known."""
        self.n_steps = 0
        self.failed = ""
        self.thread = 0  # that trains
        self._others = others or {}
        self._trains = self._ended = False  # an optimizer ran; since the last step's begin
        self._is_inside = False  # a closure ran since then
        self._passes = 0  # forward ones since then
        self._optimizers: list[CodeType] = []
        self._kinds: dict[int, tuple[CodeType, str | None]] = {}
        self._known = {*_BEGINS, names.steps()["ends"], *more}

    def others(self) -> list[str]:
        """Return the functions that are no phases."""
        return [each for functions in self._others.values() for each in functions]

    def step_begins(self) -> None:
        """Do what is to be done where a step begins."""

    def phase_begins(self, phase: str) -> None:
        """Do what is to be done where a phase begins on the thread that trains."""

    def other_begins(self, event: str) -> None:
        """Do what is to be done where one of the other functions begins, on any thread."""

    def stops(self) -> None:
        """Do what is to be done where something failed."""

    def is_busy(self) -> bool:
        """Must the thread stay the one that it is?"""
        return False

    def begins(self, code: CodeType) -> None:
        """Follow a function that begins."""
        known = self._kinds.get(id(code))
        if known is None:
            known = self._kinds[id(code)] = code, self._kind_of(code)
            if known[1] == names.steps()["ends"]:
                self._optimizers.append(code)
        kind = known[1]
        if kind is None or self.failed:
            return
        try:
            if kind in self._others:
                self.other_begins(kind)
            else:
                self._enter(kind)
        except Exception as error:  # PyTorch's: whatever it is
            self.failed = f"{type(error).__name__}: {error}"
            self.stops()

    def _kind_of(self, code: CodeType) -> str | None:
        for event, functions in self._others.items():
            if names.is_listed(functions, code.co_filename, code.co_qualname):
                return event
        phase = names.phase_of(code.co_filename, code.co_qualname)
        return phase if phase in self._known else None

    def _enter(self, phase: str) -> None:
        trains, thread = phase == names.steps()["ends"], get_ident()
        if not self.thread or (trains and not self._trains and not self.is_busy()):
            self.thread = thread
        if thread != self.thread:
            return
        if trains:
            if self._is_inside:
                self._begin_step()
            self._trains = self._ended = True
        elif phase not in _BEGINS:
            pass
        elif self._ended and _runs(self._optimizers):  # what a closure runs is of its step
            self._is_inside = True
        elif self._ended:
            self._begin_step()
        elif phase == "forward":
            self._passes += 1
            if not self._trains or self._passes > names.gpu()["longest"]:
                self._begin_step()
        self.phase_begins(phase)

    def _begin_step(self) -> None:
        self._ended, self._is_inside, self._passes = False, False, 0
        self.n_steps += 1
        self.step_begins()


class RankSearch:
    """Finds which rank the process is where it gets that when it has long begun (of Ray Train, of
    torch.multiprocessing.spawn), and writes it at once: being killed is the usual end of such.

    It looks as the first, second, fourth, eighth... function that is a phase begins.
    """

    def __init__(
        self,
        native: ModuleType,
        ranks: Callable[[], dict[str, int]],
        ends: Callable[["RankSearch"], object],
    ) -> None:
        """Prepare it: `ranks` as for hooks.watch; `ends` is called where it need not go on."""
        self._native, self._ranks, self._ends, self._n = native, ranks, ends, 0

    def goes_on(self) -> bool:
        """Look now, and return whether a rank is still to be sought."""
        known = dict[str, int]()
        with suppress(Exception):  # PyTorch's, or of a program that took os.environ apart
            known = self._ranks() or names.ranks()
        if known:
            self._native.write_meta(json.dumps(known).encode())
        return not known

    def begins(self, _code: CodeType) -> None:
        """Look, as a function begins, if it is its turn."""
        self._n += 1
        if not self._n & (self._n - 1) and not (self.goes_on() and self._n < _LAST_LOOK):
            self._ends(self)


def _runs(codes: Collection[CodeType]) -> bool:
    """Does a function with such code run on this thread?"""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if any(frame.f_code is code for code in codes):
            return True
        frame = frame.f_back
    return False
