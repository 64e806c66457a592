"""Benchmarks: contenders are measured in turn within one run, and compared by ratios."""
