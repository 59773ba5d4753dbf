def trace_function_stats(
    filename: str,
    lineno: int,
    funcname: str,
    calls: int,
    total_time: float,
    avg_time: float | None = None,
) -> None: ...
def is_recorded() -> bool: ...
