"""Which sets a certificate is about, in words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from budgetline.messages import name_of

MOST_NAMES = 3
"""Where there is little room, so many groups are named, and the others counted."""


def condition_of(
    names: Sequence[str], included: NDArray[np.bool_], excluded: NDArray[np.bool_], most: int | None = None
) -> str:
    """Return "with a and without b, c" for sets that must or must not hold groups; "" if they may be any.

    Parameters
    ----------
    names : sequence of J names
    included, excluded : bool arrays of shape (J,)
    most : int, optional
        How many names to list of each, at most.

    Examples
    --------
    >>> import numpy as np
    >>> from budgetline.optimality.condition import condition_of
    >>> out = np.array([False, True, True])
    >>> condition_of(["a", "b", "c"], ~out, out), condition_of(["a", "b", "c"], ~out & out, out, most=1)
    ('with a and without b, c', 'without b and 1 more')
    """
    parts = []
    for word, mask in (("with", included), ("without", excluded)):
        if mask.any():
            listed = [name_of(names[g]) for g in np.flatnonzero(mask).tolist()]
            more = len(listed) - len(listed[:most])
            parts.append(f"{word} {', '.join(listed[:most])}" + (f" and {more} more" if more else ""))
    return " and ".join(parts)
