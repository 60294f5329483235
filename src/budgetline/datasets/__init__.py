"""Small real data sets, most of them with the costs of their features."""

from budgetline.datasets.loaders import load_bank, load_heart, load_mfeat, load_nhanes, load_thyroid

__all__ = ["load_bank", "load_heart", "load_mfeat", "load_nhanes", "load_thyroid"]
