"""PytorchTrainer: rows or a data set, and one call. A facade over the one loop; knows no tensor tables, recipes or
command line."""

from samovar.trainer.criteria import Criterion, MixedCriterion
from samovar.trainer.lookahead import Lookahead
from samovar.trainer.report import Report
from samovar.trainer.trainer import PytorchTrainer

__all__ = ["Criterion", "Lookahead", "MixedCriterion", "PytorchTrainer", "Report"]
