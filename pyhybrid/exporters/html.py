"""One HTML page that shows a profile: it needs no network, no server and no other program.

Its script and style are made of web/, its data are columns (page/columns.py), its policy allows
nothing else.
"""

import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, BinaryIO

from pyhybrid.exporters.exporter import Exporter
from pyhybrid.exporters.page.calls import add_calls, add_lines
from pyhybrid.exporters.page.columns import Columns
from pyhybrid.exporters.page.document import document
from pyhybrid.exporters.page.gpu import add_gpu
from pyhybrid.exporters.page.samples import TICK_NS, Samples
from pyhybrid.exporters.page.sources import sources
from pyhybrid.exporters.page.steps import add_steps
from pyhybrid.exporters.page.tree import Strings, Tree
from pyhybrid.report.summary import as_json, summarize
from pyhybrid.tables import Process
from pyhybrid.tables.profile import Profile
from pyhybrid.views.lines.program_lines import program_files

FEW_PATHS = 20_000  # sampled ones; all their frames take some 10 bytes each


class Html(Exporter):
    """Writes the page."""

    name = "html"
    help = "a page for a browser, which holds all it needs: flame graph, table, threads, source"
    suffix = ".html"
    all_frames = False  # paths with plumbing are there, too, also where they are many
    with_source = True  # source text that the program's files have
    texts: Mapping[str, str] = MappingProxyType({})  # source text of what has no file, by its name
    notes: Sequence[str] = ()  # what to say of the choice of samples

    def write(self, profile: Profile, file: BinaryIO, limit_bytes: int | None = None) -> list[str]:
        """Write the page."""
        strings, columns = Strings(), Columns()
        plumbing = self.all_frames or len(profile.sampled) < FEW_PATHS
        tree = Tree(profile, strings, plumbing)
        tree.add_frames(columns)
        tree.add_nodes(columns)
        n_exact, unit_ns = tree.add_exact(columns)
        tree.add_functions(columns)
        samples = Samples(profile, tree, strings)
        n_samples = samples.add(columns)
        n_calls = add_calls(profile, tree, strings, columns)
        add_lines(profile, strings, columns)
        steps = add_steps(profile, columns)
        gpu = add_gpu(profile, tree, strings, columns)
        known, texts = (
            sources(profile, samples.by_line(), self.texts) if self.with_source else ([], [])
        )
        own_files = [strings.number(file) for file in sorted(program_files(profile))]
        columns.add_text("source", texts)
        columns.add_text("strings", strings)
        meta = {
            "format": 1,
            "summary": self._summary(profile),
            "start_unix_ns": str(profile.meta.get("start_unix_ns") or ""),
            "host": str(profile.meta.get("hostname") or ""),
            "cpu": str(profile.meta.get("cpu") or ""),
            "is_part": profile.view.by_time,
            "tick_ns": TICK_NS,
            "exact_unit_ns": unit_ns,
            "threads": _threads(profile, n_samples, n_exact),
            "processes": [
                {"pid": each.pid, "command": _command_line(each)}
                for each in profile.processes.values()
            ],
            "sources": known,
            "program_files": own_files,
            "n_calls": n_calls,
            "steps": steps,
            "plumbing": plumbing,
            "import_frame": tree.import_frame,
            "gpu": gpu,
        }
        text = document(_command_line(profile.process), meta, columns)
        file.write(text.encode("utf-8", "backslashreplace"))
        return []

    def _summary(self, profile: Profile) -> dict[str, Any]:
        """What `report --json` says, without what the page adds up itself."""
        summary = as_json(summarize(profile, [], list(self.notes)))
        added_up = ("functions", "program_lines", "paths", "lines")
        for name in (*added_up, "written", "left_out", "min_time_ns"):
            del summary[name]
        return summary


def _command_line(process: Process) -> str:
    program, *arguments = process.argv or ["?"]
    return " ".join([os.path.basename(program), *arguments])


def _threads(profile: Profile, n_samples: list[int], n_exact: list[int]) -> list[dict[str, Any]]:
    lost = dict.fromkeys(profile.threads, 0)
    for loss in profile.losses:
        lost[loss.thread] += loss.samples
    processes = {number: at for at, number in enumerate(profile.processes)}
    return [
        {
            "process": processes[thread.process],
            "name": profile.thread_name(thread.id),
            "tid": thread.tid,
            "samples": samples,
            "exact": exact,
            "cpu_ns": thread.cpu_ns,
            "lost": lost[thread.id],
        }
        for thread, samples, exact in zip(profile.threads.values(), n_samples, n_exact, strict=True)
    ]
