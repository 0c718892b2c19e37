"""The benchmark: Sessiontree beside the living agents, on the same files, in one run.

``python -m benchmarks`` (or ``make bench``) writes a table of ratios. Nothing in ``src`` may import
from here.
"""
