"""Advice from leaving out one traversal at a time: which fusion, which settings, what each traversal is worth."""

from displace.advise.advice import Advice, Choice, Condition, Score, Worth
from displace.advise.advising import advise

__all__ = ["Advice", "Choice", "Condition", "Score", "Worth", "advise"]
