"""The paper's five studies: functions that compute, and plain records of what they found."""

from displace.evaluation.studies.compression import Compression, compressions_of, study_compression
from displace.evaluation.studies.cost import Cost, study_cost
from displace.evaluation.studies.qualitative import Qualitative, study_examples
from displace.evaluation.studies.running import StudyOptions, run_studies
from displace.evaluation.studies.space import Space, study_space
from displace.evaluation.studies.study_files import (
    KINDS,
    Study,
    about,
    kind_of,
    load_studies,
    load_study,
    save_study,
    studies_beside,
    study_path,
    topic_of,
)
from displace.evaluation.studies.task import METHODS, PAPER, Setting, Task, all_methods
from displace.evaluation.studies.tau import TAUS, TauAblation, study_tau

__all__ = [
    "KINDS",
    "METHODS",
    "PAPER",
    "TAUS",
    "Compression",
    "Cost",
    "Qualitative",
    "Setting",
    "Space",
    "Study",
    "StudyOptions",
    "Task",
    "TauAblation",
    "about",
    "all_methods",
    "compressions_of",
    "kind_of",
    "load_studies",
    "load_study",
    "run_studies",
    "save_study",
    "studies_beside",
    "study_compression",
    "study_cost",
    "study_examples",
    "study_path",
    "study_space",
    "study_tau",
    "topic_of",
]
