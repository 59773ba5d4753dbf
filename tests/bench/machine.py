"""Where a figure comes from: commit, machine, versions."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path


def commit(root: Path) -> str:
    """As `git describe` says it: the commit, with -dirty when files differ from it."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    answer = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    return answer.stdout.strip() or "none"


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
