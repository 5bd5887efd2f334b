"""Evaluation: suites of cells, their results on disk, tables from them, and the published numbers beside."""
