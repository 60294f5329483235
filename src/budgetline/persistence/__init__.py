"""Models in files: saved and loaded without pickle, and exported as ONNX graphs and as linear formats."""

from budgetline.persistence.linear_formats import to_linear_format
from budgetline.persistence.model_file import load, save
from budgetline.persistence.onnx_graph import to_onnx

__all__ = ["load", "save", "to_linear_format", "to_onnx"]
