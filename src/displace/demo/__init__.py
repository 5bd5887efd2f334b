"""The demonstration: a town is drawn, mapped, located at night, and every fusion is compared on it."""

from displace.demo.comparison import Comparison, Condition, Score, compare
from displace.demo.outcome import Demo
from displace.demo.run import run

__all__ = ["Comparison", "Condition", "Demo", "Score", "compare", "run"]
