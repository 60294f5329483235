"""What a bought group becomes: raw columns of any kind, encoded as design columns inside their group."""

from budgetline.encoding.settings import Encoding

__all__ = ["Encoding"]
