"""PERFFLOW_OPTIONS, by which PerfFlowAspect is told what to write and where.

`name=solver:log-dir=traces:log-event=Compact`; what each means is told at
https://perfflowaspect.readthedocs.io and in the class below.
"""

import hashlib
import os
from collections.abc import Mapping
from urllib.parse import urlparse

from pyhybrid.errors import UsageError

VARIABLE = "PERFFLOW_OPTIONS"
_CHOICES = {
    "log-enable": ("true", "false"),
    "cpu-mem-usage": ("true", "false"),
    "log-event": ("verbose", "compact"),
    "log-format": ("array", "object"),
}
_DEFAULTS = {
    "name": "generic",  # of the program, for the file's name
    "log-filename-include": "hostname,pid",  # also: name, instance-path
    "log-dir": "./",
    "log-enable": "true",  # else nothing is written
    "cpu-mem-usage": "false",
    "log-event": "verbose",
    "log-format": "array",
}


class PerfflowOptions:
    """The options of an environment."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Raises UsageError for a value that does not exist; of unknown options see `notes`."""
        self._environment = environment
        self._values = dict(_DEFAULTS)
        self.notes: list[str] = []
        for word in filter(None, environment.get(VARIABLE, "").split(":")):
            name, _, value = word.partition("=")
            if name not in _DEFAULTS:
                self.notes.append(f"leaves {name} of {VARIABLE} alone")
                continue
            choices = _CHOICES.get(name)
            if choices and value.lower() not in choices:
                raise UsageError(f"{VARIABLE}: {name} is one of {', '.join(choices)}, not {value}")
            self._values[name] = value.lower() if choices else value

    def has(self, name: str, value: str) -> bool:
        """Has the option this value?"""
        return self._values[name] == value

    def path(self, hostname: str, pid: int) -> str:
        """Of the file, in log-dir."""
        words = ["perfflow"]
        for word in self._values["log-filename-include"].split(","):
            known = {
                "name": self._values["name"],
                "instance-path": "{" + self._instance_path() + "}",
                "hostname": hostname,
                "pid": str(pid),
            }
            if word not in known:
                raise UsageError(f"{VARIABLE}: log-filename-include has no {word!r}")
            words.append(known[word])
        return os.path.normpath(os.path.join(self._values["log-dir"], ".".join(words) + ".pfw"))

    def _instance_path(self) -> str:
        """Where in a hierarchy of batch jobs the program ran."""
        environ = self._environment
        unique = environ.get("FLUX_JOB_ID")
        if unique is None:
            step = environ.get("SLURM_JOB_ID"), environ.get("SLURM_STEP_ID")
            if None in step:
                step = environ.get("LSB_JOBID"), environ.get("LS_JOBPID")
            uri = environ.get("FLUX_URI")
            text = "1" if uri is None else os.path.dirname(urlparse(uri).path)
            if None not in step:
                text = ".".join(map(str, step))
            unique = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()[:8]
        above = environ.get("PERFFLOW_INSTANCE_PATH")
        return unique if above is None else f"{above}.{unique}"
