"""Where a figure comes from: commit, machine, versions."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path


def commit(root: Path) -> str:
    """The commit, with -dirty when files differ from it (docs do not count)."""

    def git(*command: str) -> str:
        done = subprocess.run(
            ["git", *command], cwd=root, capture_output=True, text=True, check=False
        )
        return done.stdout.strip()

    number = git("rev-parse", "--short=12", "HEAD")
    differ = git("status", "--porcelain", "--untracked-files=no", "--", ":/", ":!docs")
    return number + "-dirty" * bool(differ) if number else "none"


def cpu_model() -> str:
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                return " ".join(line.split(":", 1)[1].split())
    return platform.machine()


def version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def describe(root: Path) -> dict[str, object]:
    return {
        "commit": commit(root),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": {
            "cpu": cpu_model(),
            "cores": len(os.sched_getaffinity(0)),
            "kernel": platform.release().partition("-")[0],
            "python": platform.python_version(),
            "torch": version("torch"),
        },
    }
