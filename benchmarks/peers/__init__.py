"""One adapter per peer: what people would use instead, on the same data.

Every module has ``PEERS``, a mapping of names to ``Peer`` records. A peer's package is imported when it is used, so a
package that is missing is a line of the report and no error.
"""

from peers import abess, celer, fastcan, lightgbm, ours, printed, scikit_learn, skglm, spams
from peers.problem import Answer, Peer, Problem

MODULES = (ours, scikit_learn, celer, skglm, spams, abess, fastcan, lightgbm, printed)
PEERS: dict[str, Peer] = {name: peer for module in MODULES for name, peer in module.PEERS.items()}

__all__ = ["PEERS", "Answer", "Peer", "Problem"]
