"""What a run collects, and where it puts it: options (table.py), checked with one another.

Imports are few and light: the program waits for them.
"""

from __future__ import annotations

import os

from pyhybrid.base.light import matches
from pyhybrid.errors import UsageError
from pyhybrid.options.kinds import Log, Option, StartAt
from pyhybrid.options.lists import NumberRanges, Sinks
from pyhybrid.options.table import (
    ALL_CHILDREN,
    ANNOUNCE,
    CALLS,
    COUNTING,
    FORKED_CHILDREN,
    FORMATS,
    FUNCTION_TABLES,
    NO_CHILDREN,
    PERFSTUBS,
    SAMPLING,
    TIMER_KEYS,
    TORCH_KIND,
    TRACY,
    TRACY_LINES,
    USAGE,
    USAGE_KIND,
    Options,
)

TYPE_CHECKING = False  # as in pyhybrid
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from pyhybrid.options.function_filter import Filter, Named

# What children of a run do not do: the run does it for all, or it is no child's.
OF_RUN = (
    *("emit", "emit_value", "tracy", "config", "output", "regions", "start_at"),
    "snapshot_when",
)
LEAST_KEPT_S = 2.0  # by --keep-last: a window is a quarter of it
GPU, STEPS = "gpu", "steps"  # of PyTorch
EVERYTHING = ""  # a pattern that is found everywhere


class Settings(Options):
    """Decide what to collect and where to put it.

    `formats` None: the usual ones; `kernel` None: where it costs next to nothing.
    Raises UsageError for what does not exist, or does not go together.
    """

    formats: Sequence[str]

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._given = given
        for name, each in self.options.items():
            try:
                setattr(self, name, each.kind.taken(getattr(self, name)))
            except ValueError as error:
                raise UsageError(f"{self.shown_name(each)}: {error}") from None
        if self.formats is None:
            of_calls = ("folded",) if self.summary else ()  # perf reads samples
            self.formats = FORMATS if self.mode in SAMPLING else of_calls
        if self.mode == "none":
            self.formats, self.summary = (), False  # there is no profile
        self._emit_to_tracy()
        for name, each in self.options.items():
            each.kind.check(self.shown_name(each), getattr(self, name))
        self.of_torch = TORCH_KIND.chosen(self.torch)
        self._check_together()
        if self.no_children:
            self.children = NO_CHILDREN
        self.lines = self.lines and self.counts  # sinks know already
        self.sinks = Sinks.split(self.emit)
        self.decorated: dict[str, None] = {}  # functions: nothing counts but while they run
        self.filter = self._filter()
        if GPU in self.of_torch and self.filter is not None:
            torch = self.shown_name(self.options["torch"])
            raise UsageError(f"{torch} {GPU} needs all calls: no filters")
        tables = list(FUNCTION_TABLES.parsed(FUNCTION_TABLES.from_file(self.function_settings)))
        named = {each: [t["name"] for t in tables if t.get(each)] for each in FUNCTION_TABLES.keys}
        usage = [*USAGE_KIND.of_functions(self.usage)]
        usage += [(USAGE_KIND.words(t["usage"]), t["name"]) for t in tables if t.get("usage")]
        chosen = () if self.lines else self.functions  # for their lines
        kept = (*chosen, *self.keep, *self.arguments, *named["name"])
        self.kept = _named(*kept, *(name for _, name in usage))
        self.usage_of = _by_bit(usage)
        self.arguments_of = _named(*self.arguments, *named["arguments"])
        self.lines_of = None if self.lines else _named(*named["lines"])
        self.lines = self.lines or self.lines_of is not None
        self.slower_than = [[t["name"], t["slower_than"]] for t in tables if t.get("slower_than")]

    def _filter(self) -> Filter | None:
        """Return what `_native.start` takes; the modules are imported where something is chosen."""
        own = {key: getattr(self, key) for key in TIMER_KEYS if getattr(self, key) is not None}
        file = os.environ.get("PERFSTUBS_PYTHON_FILTER_FILENAME")
        if PERFSTUBS not in dict(self.sinks):
            file = None
        include = self.include
        if self.lines and not (include or self.functions):
            include = (EVERYTHING,)  # lines are those of what a filter selects
        if not (include or self.exclude or self.functions or own or file):
            return None
        from pyhybrid.options.function_filter import (  # imports `re`
            of_perfstubs,
            selection,
            timers_of,
        )

        timers = timers_of({**(of_perfstubs(file) if file else {}), **own})
        return selection(include, self.exclude, self.functions, timers)

    def _emit_to_tracy(self) -> None:
        """Put Tracy first, where there is an option for it: it is the one that takes a while."""
        own = [each for each in self.emit if each.partition(":")[0] == TRACY]
        others = [each for each in self.emit if each not in own]
        if self.tracy is not None and not own:
            own.append(TRACY)
        if self.lines:
            own = [each.replace(TRACY, TRACY_LINES, 1) for each in own]
        self.emit = [*own, *others]

    @staticmethod
    def shown_name(option: Option) -> str:
        """Return an option as its user knows it."""
        return option.name

    def _check_together(self) -> None:
        flag = {name: self.shown_name(each) for name, each in self.options.items()}
        if self.wall_threads and (self.clock != "wall" or self.mode not in SAMPLING):
            raise UsageError(f"{flag['wall_threads']} chooses what {flag['clock']} wall samples")
        for name, each in self.options.items():
            if getattr(self, name) not in (each.default, []):
                self._check_mode(flag[name], each.modes)
        for word in TORCH_KIND.counted:
            if word in self.of_torch:
                self._check_mode(f"{flag['torch']} {word}", COUNTING)
        if self._announces() and not (self.functions or self.keep):
            chosen = f"{flag['functions']}, {flag['keep']}"
            announce = f"{flag['emit']} {ANNOUNCE}"
            raise UsageError(f"{announce} is of chosen functions: name some ({chosen})")
        if self.clock == "wall" and self.engine != "auto":
            raise UsageError(
                f"{flag['engine']} is for the CPU clock: {flag['clock']} wall has its own"
            )
        if GPU in self.of_torch and STEPS not in self.of_torch:
            raise UsageError(f"{flag['torch']} {GPU} counts steps: not with no-{STEPS}")
        if self.keep_last is not None:
            if self.keep_last < LEAST_KEPT_S:
                raise UsageError(f"{flag['keep_last']} is {LEAST_KEPT_S:g}s at least")
            for name in ("emit", "events", "tracy", "regions"):
                if getattr(self, name):
                    raise UsageError(f"{flag[name]} is not for {flag['keep_last']}")
        elif self.snapshot_when:
            raise UsageError(f"{flag['snapshot_when']} needs {flag['keep_last']}")
        if self.mode == "none" and not self.emit:
            raise UsageError(f"the mode none is for live outputs alone: name one ({flag['emit']})")
        if self.lines and not self.counts and TRACY not in dict(Sinks.split(self.emit)):
            raise UsageError(
                f"{flag['lines']} needs {flag['mode']} hybrid or trace, or {flag['emit']} {TRACY}"
            )
        if self.lines and self.counts and not (self.include or self.functions or self.paused):
            chosen = f"{flag['functions']}, {flag['include']}"
            raise UsageError(
                f"{flag['lines']} are counted of chosen functions: name some ({chosen})"
            )

    def _check_mode(self, option: str, modes: tuple[str, ...]) -> None:
        if self.mode not in modes:
            *others, last = modes
            mode = self.shown_name(self.options["mode"])
            known = f"{', '.join(others)} or {last}"
            raise UsageError(f"{option} needs {mode} {known}, not {self.mode}")

    def of_children(self) -> dict[str, Any]:
        """Return the options of started children, as `marshal` takes them."""
        left = {name: self.options[name].default for name in OF_RUN}
        return {**self._given, **left, "formats": (), "summary": False}

    @property
    def begins_later(self) -> bool:
        """Does the program run without being profiled at first?"""
        return self.paused or bool(StartAt.step(self.start_at))

    def wants_rank(self, rank: int | None) -> bool:
        """Is this rank profiled?  None: it is no rank."""
        if self.ranks is None or rank is None:
            return True
        return any(first <= rank <= last for first, last in NumberRanges.ranges(self.ranks))

    def wants_child(self, program: str, name: str = "") -> bool:
        """Is a child profiled that runs this script or module, or has this name?"""
        if self.children in (ALL_CHILDREN, FORKED_CHILDREN):
            return True
        patterns = self.children.split(",")
        return any(matches(word, each) for word in (program, name) if word for each in patterns)

    def for_children(self) -> Settings:
        """Return those of a forked child: no live outputs, no files and no words of its own."""
        child = object.__new__(type(self))
        vars(child).update(vars(self), formats=(), summary=False, sinks=[], emit=[])
        child.of_torch = {key: value for key, value in self.of_torch.items() if key != GPU}
        return child

    def _announces(self) -> bool:
        return any(f"{each}:".startswith(f"{ANNOUNCE}:") for each in self.emit)

    @property
    def samples(self) -> bool:
        """Are stacks sampled?"""
        return self.mode in SAMPLING

    @property
    def chooses(self) -> bool:
        """Are only some functions counted?"""
        by_timers = self.filter is not None and self.filter[3] is not None
        return by_timers or bool(self.include or self.exclude or self.functions)

    @property
    def traces(self) -> bool:
        """Are calls counted, for a profile or for live outputs?"""
        return self.mode in CALLS

    @property
    def counts(self) -> bool:
        """Is there a profile?"""
        return self.mode != "none"

    def native(self) -> dict[str, Any]:
        """Return the arguments of `_native.start` that are an option's value, or part of it."""
        found = {
            each.native: each.kind.to_native(getattr(self, name))
            for name, each in self.options.items()
            if each.native
        }
        return {**found, "keep_events_ns": Log.last_ns(self.events)}


def _named(*names: str) -> Named | None:
    """Return functions by name, as `_native.start` takes them; None: there are none."""
    if not names:
        return None
    from pyhybrid.options.function_filter import named  # imports `re`

    return named(names)


def _by_bit(usage: list[tuple[list[str], str]]) -> tuple[Named | None, ...] | None:
    """Return for each bit the functions that have it, as `_native.start` takes them."""
    if not usage:
        return None
    return tuple(_named(*(name for words, name in usage if word in words)) for word in USAGE)


class CommandLineSettings(Settings):
    """Name the command line's flags in errors."""

    @staticmethod
    def shown_name(option: Option) -> str:
        """Return the flag."""
        return option.flag
