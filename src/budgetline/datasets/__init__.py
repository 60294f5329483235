"""Small real data sets, most of them with the costs of their features."""

from budgetline.datasets.bank import load_bank
from budgetline.datasets.heart import load_heart
from budgetline.datasets.mfeat import load_mfeat
from budgetline.datasets.nhanes import load_nhanes
from budgetline.datasets.thyroid import load_thyroid

__all__ = ["load_bank", "load_heart", "load_mfeat", "load_nhanes", "load_thyroid"]
