"""USDT probes: `--emit usdt`, listened to by bpftrace."""

from __future__ import annotations

import collections
import contextlib
import os
import re
import select
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from exact_support import python_calls
from perfstubs_support import build_tool
from support import PATIENCE_S, TARGETS, Run
from usdt_support import (
    CALL,
    LIBRARY,
    LINE,
    NONE,
    PROGRAM,
    TURNS,
    WITH_TRACEFS,
    counts,
    notes,
    probed,
    traced,
)

from pyhybrid.tables.profile import Profile

# What probed.py's `run` calls, with main's own.
STARTS = {
    "run": 1,
    "fib": 15,
    "Model.forward": 1,
    "numbers": 1,
    "fails": 1,
    "values": 11,
    "lines": 1,
}
ALL_EVENTS = "\n".join(
    f'usdt:{LIBRARY}:pyhybrid:{name} {{ printf("{name} {format}\\n", {arguments}); }}'
    for names, format, arguments in (
        (("PY_START", "PY_RESUME", "LINE"), "%s:%d %d", "str(arg0), arg2, arg3"),
        (
            ("PY_THROW", "PY_RETURN", "PY_YIELD", "PY_UNWIND", "CALL"),
            "%s:%d %d %s",
            "str(arg0), arg2, arg3, str(arg4)",
        ),
        (("REGION_BEGIN", "REGION_END"), "%s", "str(arg0)"),
    )
    for name in names
)
STARTED = f"usdt:{LIBRARY}:pyhybrid:PY_START {{ @[str(arg0)] = count(); }}\n"


def chosen(found: dict[str, int], names: dict[str, int] = STARTS) -> dict[str, int]:
    """Without what the program does between its commands."""
    return {name: found.get(name, 0) for name in names}


@contextlib.contextmanager
def killed_at_the_end(command: list[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(command, cwd=folder) as process:
        try:
            yield process
        finally:
            process.kill()


def first_lines() -> dict[str, int]:
    """Where probed.py defines its functions, by their plain names."""
    lines = enumerate(PROGRAM.read_text().splitlines(), 1)
    found = ((re.match(r" *def (\w+)", line), n) for n, line in lines)
    return {match[1]: n for match, n in found if match}


def by_name() -> dict[str, int]:
    """Semaphores."""
    return {note.name: note.semaphore for note in notes()}


@pytest.mark.version
def test_three_names_at_one_byte() -> None:
    """A site has a nop of one byte and one semaphore; the interface is what `probes` prints."""
    sites = collections.defaultdict(set)
    for note in notes():
        sites[note.place].add(note)
    code = LIBRARY.read_bytes()
    for place, names in sites.items():
        assert code[place] == 0x90, "(the text's addresses are those in the file)"
        assert len({note.semaphore for note in names}) == 1
    providers = collections.Counter(len(names) for names in sites.values())
    assert providers == {3: 7, 2: 1, 1: 2}, "begins, ends and lines; CALL; regions"


def test_the_list_of_probes(pyhybrid: Callable[..., Run]) -> None:
    """What `probes` prints is what the library has: names, and each argument's kind."""
    lines = pyhybrid("probes").result.stdout.splitlines()
    assert lines[0].split() == ["library", str(LIBRARY)]
    assert pyhybrid("probes", "--path").result.stdout == f"{LIBRARY}\n"
    shown = {
        name: re.findall(r"arg\d (\w+)", arguments)
        for name, arguments in re.findall(r"^pyhybrid:(\w+) +(.*)$", "\n".join(lines), re.M)
    }
    kinds = {"8": "str", "-4": "int"}
    for provider in ("pyhybrid", "pyusdt"):
        of_library = {
            note.name: [kinds[size] for size in re.findall(r"(-?\d)@", note.arguments)]
            for note in notes()
            if note.provider == provider
        }
        expected = shown.items() if provider == "pyhybrid" else list(shown.items())[:8]
        assert of_library == dict(expected)


@pytest.mark.engine
def test_events_are_on_while_someone_listens(tmp_path: Path) -> None:
    """As a tracer does it: by the semaphores; each alone switches on what it needs."""
    semaphores = by_name()
    with probed(tmp_path, *NONE) as program:
        program.tell("events 0", "run")
        wanted = 0
        for name, mask in (("LINE", LINE), ("PY_RETURN", TURNS), ("CALL", CALL)):
            program.poke(semaphores[name], 1)
            wanted |= mask
            program.tell(f"events {wanted}", "run")
        program.poke(semaphores["PY_RETURN"], 0)
        program.tell(f"events {CALL | LINE}", "run")
        program.poke(semaphores["CALL"], 0)
        program.poke(semaphores["LINE"], 0)
        program.tell("events 0", "run")
        assert not program.end()


@pytest.mark.further
@pytest.mark.version
@pytest.mark.once
def test_what_is_counted_stays_so(tmp_path: Path) -> None:
    """Lines and calls of C functions, whose events others want meanwhile, too."""
    options = ("--mode", "trace", "--emit", "usdt", "-t", "lines", "-t", "run", "--lines")
    semaphores = by_name()
    with probed(tmp_path, *options, "--c-calls") as program:
        program.tell("run")
        for value in (1, 0):
            program.poke(semaphores["LINE"], value)
            program.poke(semaphores["CALL"], value)
            program.tell(f"events {TURNS | CALL | (LINE if value else 0)}", "run")
        program.end()
    with Profile.open(str(tmp_path / "out.pyhybrid")) as profile:
        frames, nodes = profile.frames, profile.nodes
        hits = collections.Counter(
            {
                row.line: row.hits
                for row in profile.lines
                if frames[nodes.frame[row.node]].name == "lines"
            }
        )
        of_next = [
            row.calls for row in profile.exact if "next" in frames[nodes.frame[row.node]].name
        ]
    first = first_lines()["lines"]
    assert hits == {first + n: 3 for n in (1, 2, 3)}
    assert of_next == [3]


@pytest.mark.version
@pytest.mark.needs("root", "bpftrace")
@pytest.mark.once
def test_each_event_and_its_arguments(tmp_path: Path) -> None:
    with probed(tmp_path, *NONE) as program:
        with traced(tmp_path, ALL_EVENTS, "-p", program.pid) as tracer:
            # LINE is attached to after all but begins (bpftrace goes backwards).
            program.tell(f"events {TURNS | CALL | LINE}", "run")
            tracer.wait_for("PY_RETURN run:")
            text = tracer.detach()
        program.tell("events 0", "run")
        assert not program.end()
    lines = text.splitlines()
    at = first_lines()
    starts = collections.Counter(re.findall(r"^PY_START (\S+):\d+ \d+$", text, re.M))
    assert chosen(starts) == STARTS
    for expected in (
        rf"PY_START Model\.forward:{at['forward']} \d+",
        rf"CALL run:{at['run']} \d+ Model\.forward",
        rf"CALL Model\.forward:{at['forward']} \d+ float",
        rf"PY_RETURN Model\.forward:{at['forward']} \d+ 3\.0",
        rf"PY_YIELD numbers:{at['numbers']} \d+ 1",
        rf"PY_THROW numbers:{at['numbers']} \d+ KeyError: its key",
        rf"PY_RESUME numbers:{at['numbers']} \d+",
        rf"PY_UNWIND fails:{at['fails']} \d+ ValueError: no such thing",
        *(rf"LINE lines:{at['lines'] + n} \d+" for n in (1, 2, 3)),
        "REGION_BEGIN epoch",
        "REGION_END epoch",
    ):
        assert sum(re.fullmatch(expected, line) is not None for line in lines) == 1, expected
    offsets = [int(n) for n in re.findall(r"^LINE lines:\d+ (\d+)$", text, re.M)]
    assert offsets == sorted(set(offsets))
    values = re.findall(r"^PY_RETURN values:\d+ \d+ (.*)$", text, re.M)
    assert values[:6] == ["None", "True", "12", "<int>", "1.5", "'täxt'"]
    assert values[6].startswith("'xxxxx")
    assert values[7:] == ["<list of 1>", "<tuple of 2>", "<dict of 1>", "<Tensor>"]


@pytest.mark.further
@pytest.mark.version
@pytest.mark.needs("root", "bpftrace")
@pytest.mark.once
def test_a_script_for_pyusdt(tmp_path: Path) -> None:
    """Its probes have its arguments, in its order, with plain names; only the library's path is
    ours."""
    formats = {
        **dict.fromkeys(("PY_START", "PY_RESUME"), ("%s (%s:%d)", "str(arg0), str(arg1), arg2")),
        **dict.fromkeys(("PY_RETURN", "PY_YIELD"), ("%s -> %s", "str(arg0), str(arg4)")),
        "CALL": ("%s calls %s", "str(arg0), str(arg4)"),
        "LINE": ("%s at %d", "str(arg0), arg2"),
    }
    script = "\n".join(
        f'usdt:{LIBRARY}:pyusdt:{name} {{ printf("{name} {format}|\\n", {arguments}); }}'
        for name, (format, arguments) in formats.items()
    )
    with (
        probed(tmp_path, *NONE) as program,
        traced(tmp_path, script, "-p", program.pid) as tracer,
    ):
        program.wait_for_events(TURNS | CALL | LINE)
        program.tell("run")
        tracer.wait_for("PY_RETURN run -> None")
        text = tracer.detach()
        assert not program.end()
    lines = re.findall(r"^(.*)\|$", text, re.M)
    at = first_lines()
    file = str(PROGRAM)[:63]  # as much of a string as bpftrace has unless told otherwise
    for expected in (
        f"PY_START forward ({file}:{at['forward']})",
        f"PY_RESUME numbers ({file}:{at['numbers']})",
        "PY_RETURN forward -> 3.0",
        "PY_YIELD numbers -> 1",
        "CALL forward calls float",
        f"LINE lines at {at['lines'] + 1}",
    ):
        assert lines.count(expected) == 1, expected
    starts = collections.Counter(re.findall(r"^PY_START (\w+) \(", text, re.M))
    plain = {name.rpartition(".")[2]: n for name, n in STARTS.items()}
    assert chosen(starts, plain) == plain


@pytest.mark.further
@pytest.mark.needs("root", "bpftrace")
@pytest.mark.once
@pytest.mark.parametrize(
    ("value", "expected"),
    [("none", [""] * 4), ("repr", ["[1]", "(1, 2)", "{3: 4}", "<Tensor>"])],
)
def test_what_is_told_of_values(tmp_path: Path, value: str, expected: list[str]) -> None:
    """An exception of a program's repr() is not the program's."""
    script = f'usdt:{LIBRARY}:pyhybrid:PY_RETURN {{ printf("%s|%s|\\n", str(arg0), str(arg4)); }}'
    with (
        probed(tmp_path, *NONE, "--emit-value", value) as program,
        traced(tmp_path, script, "-p", program.pid) as tracer,
    ):
        program.wait_for_events(TURNS)
        program.tell("run")
        tracer.wait_for("run|")
        assert re.findall(r"^values\|(.*)\|$", tracer.detach(), re.M)[-4:] == expected
        assert not program.end()


@pytest.mark.further
@pytest.mark.needs("root", "bpftrace")
@pytest.mark.once
def test_beside_a_sink_that_takes_turns_alone(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """What the event was, and where, is told from when a tracer wants it."""
    tool = build_tool(tmp_path_factory)
    script = f'usdt:{LIBRARY}:pyhybrid:PY_RESUME {{ printf("%s:%d|\\n", str(arg0), arg3); }}'
    with probed(tmp_path, *NONE, "--emit", f"perfstubs:{tool}") as program:
        program.tell(f"events {TURNS}", "run")
        with traced(tmp_path, script, "-p", program.pid) as tracer:
            program.wait_for_events(TURNS)
            program.tell("run")
            tracer.wait_for("numbers:")
            (offset,) = re.findall(r"^numbers:(-?\d+)\|$", tracer.detach(), re.M)
        assert int(offset) > 0
        program.end()


@pytest.mark.further
@pytest.mark.needs("root", "bpftrace")
@pytest.mark.once
def test_tracers_come_and_go(tmp_path: Path) -> None:
    """One by each of the three names at once, then none, then one again that wants lines alone."""
    texts = (
        STARTED,
        f"usdt:{LIBRARY}:pyusdt:PY_START {{ @[str(arg0)] = count(); }}",
        f"usdt:{LIBRARY}:python:function__entry {{ @entry[str(arg1)] = count(); }}\n"
        f"usdt:{LIBRARY}:python:function__return {{ @return[str(arg1)] = count(); }}\n",
    )
    folders = [tmp_path / str(i) for i in range(4)]
    for folder in folders:
        folder.mkdir()
    with probed(tmp_path, *NONE) as program:
        by_pid = ("-p", program.pid)
        with (
            traced(folders[0], texts[0], *by_pid) as pyhybrids,
            traced(folders[1], texts[1], *by_pid) as pyusdts,
            traced(folders[2], texts[2], *by_pid) as cpythons,
        ):
            program.wait_for_events(TURNS)
            program.tell("run")
            printed = [tracer.detach() for tracer in (pyhybrids, pyusdts, cpythons)]
        plain = {name.rpartition(".")[2]: n for name, n in STARTS.items()}
        assert chosen(counts(printed[0])) == STARTS
        assert chosen(counts(printed[1]), plain) == plain
        turns = {**plain, "numbers": 3}
        for kind in ("entry", "return"):
            assert chosen(counts(printed[2], kind), turns) == turns
        program.tell("events 0", "run")
        lines = f"usdt:{LIBRARY}:pyhybrid:LINE {{ @[str(arg0)] = count(); }}"
        with traced(folders[3], lines, *by_pid) as tracer:
            program.wait_for_events(LINE)
            program.tell("run")
            assert counts(tracer.detach())["lines"] == 3
        program.tell("events 0")
        assert not program.end()


@pytest.mark.further
@pytest.mark.needs("root", "bpftrace")
@pytest.mark.once
@pytest.mark.alone  # every process that has the library is listened to
def test_by_path_before_programs_start(tmp_path: Path) -> None:
    """All of them are heard, from the first call on, beside a profile that has the same counts; a
    forked child is not."""
    script = f"usdt:{LIBRARY}:pyhybrid:PY_START {{ @[pid, str(arg0)] = count(); }}"
    with (
        traced(tmp_path, script) as tracer,
        probed(tmp_path, "--mode", "hybrid", "--emit", "usdt", "--no-children") as program,
        probed(tmp_path, *NONE) as other,
    ):
        program.tell("run", "child")
        other.tell("run", "child")
        other.end()
        program.end()
        printed = tracer.detach()
    of_program = counts(printed, before=f"{program.pid}, ")
    assert chosen(of_program) == STARTS
    assert chosen(counts(printed, before=f"{other.pid}, ")) == STARTS
    assert of_program["child"] == 1
    with Profile.open(str(tmp_path / "out.pyhybrid")) as profile:
        calls = python_calls(profile)
    assert sum(of_program.values()) == calls


@pytest.mark.further
@pytest.mark.needs("root", "bpftrace")
@pytest.mark.once
def test_a_tracer_leaves_the_red_zone_alone(tmp_path: Path) -> None:
    """Compiled with one, unlike ours."""
    include = TARGETS.parent.parent / "src" / "emit"
    program = tmp_path / "red_zone"
    subprocess.run(
        ["gcc", "-O2", f"-I{include}", TARGETS / "red_zone.c", "-o", program], check=True
    )
    script = f"usdt:{program}:pyhybrid:RED_ZONE {{ @ = count(); }}"
    pipe = subprocess.PIPE
    with subprocess.Popen([program], stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin and process.stdout
        assert process.stdout.readline() == "ready\n"
        with traced(tmp_path, script, "-p", process.pid) as tracer:
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == "0 wrong, attached: 1\n"
            fired = re.search(r"^@: (\d+)$", tracer.detach(), re.M)
    assert fired
    assert int(fired[1]) > 0


@pytest.mark.further
@pytest.mark.needs("root", "bpftrace")
@pytest.mark.once
def test_what_is_chosen_and_pauses(tmp_path: Path) -> None:
    options = ("--mode", "none", "--emit", "usdt", "-t", "fib", "-t", "lines")
    script = STARTED + f"usdt:{LIBRARY}:pyhybrid:LINE {{ @lines[str(arg0)] = count(); }}"
    with (
        probed(tmp_path, *options) as program,
        traced(tmp_path, script, "-p", program.pid) as tracer,
    ):
        program.wait_for_events(TURNS | LINE)
        program.tell("run", "pause", "events 0", "run", "resume")
        program.tell(f"events {TURNS | LINE}", "run")
        text = tracer.detach()
        assert counts(text) == {"fib": 30, "lines": 2}
        assert counts(text, "lines") == {"fib": 30, "lines": 6}
        assert not program.end()


@pytest.mark.needs("root", "perf")
@pytest.mark.once
@pytest.mark.alone  # the names of tracefs are the machine's
def test_perf_probe_and_record(tmp_path: Path) -> None:
    """perf finds the probes, and each call is a sample, with the line as its third argument."""
    perf = [*WITH_TRACEFS, "perf", "--buildid-dir", str(tmp_path / "debug")]
    event = "sdt_pyhybrid:PY_START"
    control, answers = tmp_path / "control", tmp_path / "answers"
    os.mkfifo(control)
    os.mkfifo(answers)
    orders, heard = (os.open(path, os.O_RDWR) for path in (control, answers))

    def run(*arguments: str, check: bool = True) -> str:
        done = subprocess.run(
            [*perf, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert not (check and done.returncode), done.stderr
        return done.stdout

    def order(text: str) -> None:
        os.write(orders, text.encode())
        assert select.select([heard], [], [], 60)[0], text
        assert b"ack" in os.read(heard, 100)

    run("buildid-cache", "--add", str(LIBRARY))
    run("probe", "-d", event, check=False)  # of a test that was killed
    run("probe", event)
    try:
        record = ["record", "-D", "-1", f"--control=fifo:{control},{answers}", "-e", event]
        with probed(tmp_path, *NONE) as program:
            record += ["-p", str(program.pid)]
            with killed_at_the_end([*perf, *record], tmp_path) as recorder:
                program.wait_for_events(TURNS)
                order("enable\n")
                program.tell("run")
                order("stop\n")
                assert recorder.wait(PATIENCE_S) == 0
            program.tell("events 0")
        samples = run("script", "-F", "event,trace").splitlines()
    finally:
        run("probe", "-d", event)
        os.close(orders)
        os.close(heard)
    lines = collections.Counter(re.findall(r"arg3=(\d+)", "\n".join(samples)))
    assert lines.total() == sum(STARTS.values())
    assert lines[str(first_lines()["fib"])] == STARTS["fib"]


@pytest.mark.further
def test_it_takes_no_argument(pyhybrid: Callable[..., Run]) -> None:
    result = pyhybrid(
        "--mode", "none", "--emit", "usdt:x", "-c", "print('ran')", check=False
    ).result
    assert result.returncode == 2
    assert result.stderr == (
        "pyhybrid: the live output usdt is not to be had: it takes no argument (x)\n"
    )
    assert not result.stdout
