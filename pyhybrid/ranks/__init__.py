"""Many ranks: tables of each as Parquet files, which DuckDB asks, and one verdict on all."""
