"""Models in files: saved and loaded without pickle, and exported as ONNX graphs."""

from budgetline.persistence.model_file import load, save
from budgetline.persistence.onnx_graph import to_onnx

__all__ = ["load", "save", "to_onnx"]
