"""The same questions to Spark, where one machine is too small: the same SQL, the same answers.

Spark lists the folder itself, by whatever its address says; profiles are not collected, and nothing
is written there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyhybrid.base.files import one_line
from pyhybrid.errors import PyhybridError
from pyhybrid.ranks.store import Engine
from pyhybrid.ranks.tables import TABLES

LOCAL = "local[*]"
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.parquet.mergeSchema": "true",
    "spark.sql.files.ignoreCorruptFiles": "true",
    "spark.sql.session.timeZone": "UTC",
}


class SparkRanks(Engine):
    """Ask Spark, on a cluster or in this process."""

    def __init__(self, path: str, master: str = "") -> None:
        """Begin a session of a `master` ("": in this process), and find the tables below `path`.

        Raises PyhybridError where pyspark is not installed, or there are no tables.
        """
        try:
            from pyspark.sql import SparkSession
        except ImportError as error:
            raise PyhybridError(
                f"--engine spark needs pyspark, and Java: pip install pyspark ({error})"
            ) from None
        self.folder, self.problems = path.rstrip("/"), []
        try:
            builder = SparkSession.builder.appName("pyhybrid ranks").master(master or LOCAL)
            for key, value in SETTINGS.items():
                builder = builder.config(key, value)
            self.spark: Any = builder.getOrCreate()
            self.spark.sparkContext.setLogLevel("ERROR")
        except Exception as error:  # py4j's and pyspark's, of many kinds
            raise PyhybridError(f"Spark does not start: {one_line(error)[:300]}") from None
        for table in TABLES.values():
            self._make_view(table.name, table.columns)

    def _make_view(self, table: str, columns: dict[str, str]) -> None:
        from pyspark.errors import PySparkException

        types = {name: kind.replace("VARCHAR", "STRING") for name, kind in columns.items()}
        nulls = {name: f"CAST(NULL AS {kind}) AS {name}" for name, kind in types.items()}
        try:
            frame = self.spark.read.parquet(f"{self.folder}/{table}")
        except PySparkException as error:
            if table == "process":
                self.close()
                raise PyhybridError(
                    f"{self.folder}: no tables of ranks are there: {one_line(error)[:200]}"
                ) from None
            frame = self.spark.sql(f"SELECT {', '.join(nulls.values())} LIMIT 0")
        there = set(frame.columns)  # what an older schema lacks is null
        frame = frame.selectExpr("*", *(nulls[name] for name in nulls if name not in there))
        frame.createOrReplaceTempView(table)

    def named(self, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Ask Spark."""
        from pyspark.errors import PySparkException

        try:
            frame = self.spark.sql(sql)
            return list(frame.columns), [tuple(row) for row in frame.collect()]
        except PySparkException as error:
            raise PyhybridError(f"the query failed: {one_line(error)[:500]}") from None

    def keep(self, table: str, of: str, processes: Iterable[int]) -> None:
        """Keep them in the cluster's memory."""
        chosen = ", ".join(map(str, processes)) or "NULL"
        frame = self.spark.sql(f"SELECT * FROM {of} WHERE process IN ({chosen})")
        frame.cache().createOrReplaceTempView(table)

    def close(self) -> None:
        """End the session."""
        self.spark.stop()
