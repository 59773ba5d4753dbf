"""The terminal of `pyhybrid live`, by textual: it shows the lines of lines.py, and takes keys.

Textual is an extra (`pyhybrid[live]`); nothing else imports this module.
"""

from __future__ import annotations

from functools import cache

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.app import App, ComposeResult
from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget

from pyhybrid.base.terminal_text import visible
from pyhybrid.errors import PyhybridError
from pyhybrid.live.freeze import Freezing
from pyhybrid.live.functions import ALL, LIBRARIES, NO_NATIVE
from pyhybrid.live.lines import (
    FUNCTIONS,
    HELP,
    PROCESSES,
    SORTS,
    STEPS,
    THREADS,
    TREE,
    State,
    identity,
    screen,
)
from pyhybrid.live.model import Live, Now
from pyhybrid.live.pace import MOST_S, Pace
from pyhybrid.report.terminal import DIM, STRONG, WARN

_FASTEST_S = 0.1
_STYLES = {
    "": Style.null(),
    DIM: Style(dim=True),
    STRONG: Style(bold=True),
    WARN: Style(color="yellow"),
    "7": Style(reverse=True),
    "32": Style(color="green"),
    "31": Style(color="red"),
    "1;4": Style(bold=True, underline=True),
}
_NATIVE = {LIBRARIES: ALL, ALL: NO_NATIVE, NO_NATIVE: LIBRARIES}


@cache
def _segment(text: str, style: str) -> Segment:
    return Segment(visible(text), _STYLES[style])


class _Lines(Widget):
    """Show lines as they are."""

    can_focus = True

    def __init__(self) -> None:
        super().__init__()
        self.strips: list[Strip] = []

    def render_line(self, y: int) -> Strip:
        """Return one."""
        return self.strips[y] if y < len(self.strips) else Strip.blank(self.size.width)

    def get_content_width(self, container: Size, viewport: Size) -> int:
        """Return all that there is."""
        return int(container.width)


class Terminal(App[str]):
    """Show what a model knows until the user has seen enough; what `run` returns is why it ended,
    "" where the user ended it."""

    CSS = "_Lines { width: 100%; height: 100%; } Screen { background: ansi_default; }"
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, model: Live, title: str, pace: Pace, freezing: Freezing) -> None:
        """Take the model, how often to read, and what freezes."""
        super().__init__(ansi_color=True)
        self._model, self._freezing, self._pace = model, freezing, pace
        self.state = State(title=title)
        self._now: Now | None = None

    def compose(self) -> ComposeResult:
        """Make the one widget."""
        self._lines = _Lines()
        yield self._lines

    def on_mount(self) -> None:
        """Begin."""
        self._lines.focus()
        self._tick()

    def on_resize(self, _: events.Resize) -> None:
        """Show the same in another size."""
        self._draw()

    def _tick(self) -> None:
        model, state = self._model, self.state
        self._pace.begin()
        runs = model.runs
        try:
            model.read()
        except PyhybridError as error:
            self.exit(str(error))
            return
        if model.is_begun and not state.is_paused:
            self._answer()
            if self._now and not runs:
                self._now.ended = True
        state.message = self._freezing.step() or state.message
        self._draw()
        if runs or self._freezing.is_busy:
            self.set_timer(self._pace.pause_s, self._tick)

    def _answer(self) -> None:
        state = self.state
        if not state.directory:
            state.directory = str(self._model.processes[0].spool.meta.get("cwd") or "")
        state.question.most = max(50, state.first + 2 * self.size.height)
        if state.level != TREE:
            state.question.tree_of = 0
        ended = self._now.ended if self._now else False
        self._now = self._model.answer(state.question)
        self._now.ended = ended or self._now.ended

    def _draw(self) -> None:
        width, height = self.size.width, self.size.height
        if self._now is None or not width:
            return
        shown = screen(self._now, self.state, width, height)
        strips = []
        for line in shown:
            strip = Strip([_segment(*part) for part in line])
            strips.append(strip.adjust_cell_length(width))
        self._lines.strips = strips
        self._lines.refresh()

    # --- keys -------------------------------------------------------------------------------------

    def on_key(self, event: events.Key) -> None:
        """Do what a key means."""
        event.prevent_default()
        event.stop()
        key, state = event.key, self.state
        state.message = ""
        if state.typed is not None:
            self._type(key, event.character)
        elif key in ("q", "ctrl+c"):
            self.exit("")
            return
        else:
            self._do(key, event.character or "")
            moved = state.chosen > 0 or key in ("up", "home", "k")
            state.follows = identity(self._now, state) if self._now and moved else None
        if self._now and not (state.is_paused and state.level == TREE):
            self._answer()
        self._draw()

    def _type(self, key: str, character: str | None) -> None:
        state = self.state
        if key == "enter":
            state.question.text, state.typed = state.typed or "", None
        elif key == "escape":
            state.question.text, state.typed = "", None
        elif key == "backspace":
            state.typed = (state.typed or "")[:-1]
        elif character and character.isprintable():
            state.typed = (state.typed or "") + character
        if state.typed is not None:
            state.question.text = state.typed

    def _do(self, key: str, character: str) -> None:
        state, question = self.state, self.state.question
        page = max(1, self.size.height - 8)
        steps = {"up": -1, "down": 1, "k": -1, "j": 1, "pageup": -page, "pagedown": page}
        if key in steps:
            state.chosen += steps[key]
            if state.level in (TREE, STEPS, HELP):
                state.chosen = state.first + steps[key] + (page if steps[key] > 0 else 0)
        elif key in ("home", "end"):
            state.chosen = 0 if key == "home" else 1 << 30
        elif key in ("p", "space"):
            state.is_paused = not state.is_paused
        elif key == "r":
            self._model.reset()
        elif character == "/":
            state.typed, state.level = question.text, FUNCTIONS
        elif character in "1234567" and character:
            question.sort = SORTS[int(character) - 1]
        elif character in ("<", ">", "s"):
            at = SORTS.index(question.sort) + (-1 if character == "<" else 1)
            question.sort = SORTS[at % len(SORTS)]
        elif key == "n":
            question.native = _NATIVE[question.native]
            state.message = f"native functions: {question.native}"
        elif key == "i":
            question.idle = not question.idle
            state.message = "waiting counts, too" if question.idle else "only what runs counts"
        elif key == "f":
            state.message = self._freezing.begin()
        elif character in ("+", "-"):
            factor = 0.5 if character == "+" else 2.0
            self._pace.interval_s = max(_FASTEST_S, min(self._pace.interval_s * factor, MOST_S))
            state.message = f"read every {self._pace.every_s:.2g} s"
        elif key == "tab":
            self._show(STEPS if state.level == FUNCTIONS else FUNCTIONS)
        elif character == "t":
            self._show(THREADS)
        elif character == "P":
            self._show(PROCESSES)
        elif character in ("h", "?"):
            self._show(HELP)
        elif key in ("escape", "left"):
            self._show(FUNCTIONS)
        elif key in ("enter", "right") and self._now:
            self._choose(self._now)

    def _show(self, level: str) -> None:
        state = self.state
        state.level, state.chosen, state.first, state.follows = level, 0, 0, None

    def _choose(self, now: Now) -> None:
        state, question, at = self.state, self.state.question, self.state.chosen
        if state.level == FUNCTIONS and at < len(now.functions):
            question.tree_of = now.functions[at].number
            self._show(TREE)
        elif state.level == THREADS and at <= len(now.of_threads):
            question.threads = {now.of_threads[at - 1].number} if at else None
            question.pid = now.of_threads[at - 1].pid if at else None
            self._show(FUNCTIONS)
        elif state.level == PROCESSES and at <= len(now.processes):
            question.pid, question.threads = now.processes[at - 1].pid if at else None, None
            self._show(FUNCTIONS)
