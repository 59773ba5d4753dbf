"""A compiler: it calls what it is given, and writes down when."""

import time
from types import SimpleNamespace

from torch._dynamo.utils import _compilation_metrics


def _compile(code, work, reason=None):
    begin = time.time_ns() // 1000
    try:
        return work()
    finally:
        before = [each for each in _compilation_metrics if each.co_name == code.co_name]
        _compilation_metrics.append(
            SimpleNamespace(
                compile_id=f"{code.co_firstlineno}/{len(before)}",
                co_name=code.co_name,
                co_filename=code.co_filename,
                co_firstlineno=code.co_firstlineno,
                is_forward=True,
                recompile_reason=reason,
                start_time_us=begin,
                end_time_us=time.time_ns() // 1000,
            )
        )
