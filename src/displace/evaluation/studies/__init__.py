"""The paper's five studies: functions that compute, and plain records of what they found."""

from displace.evaluation.studies.compression import study_compression
from displace.evaluation.studies.cost import study_cost
from displace.evaluation.studies.qualitative import study_examples
from displace.evaluation.studies.space import study_space
from displace.evaluation.studies.task import Task
from displace.evaluation.studies.tau import study_tau

__all__ = ["Task", "study_compression", "study_cost", "study_examples", "study_space", "study_tau"]
