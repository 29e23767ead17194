"""PytorchTrainer: a data set and a net builder, one call. A facade over the one loop; knows no tables, no
recipes and no command line."""

from samovar.trainer.criteria import Criterion, MixedCriterion
from samovar.trainer.lookahead import Lookahead
from samovar.trainer.report import Report
from samovar.trainer.trainer import PytorchTrainer

__all__ = ["Criterion", "Lookahead", "MixedCriterion", "PytorchTrainer", "Report"]
