"""All peers by name, in the order of the report."""

from peers import abess, adelie, celer, fastcan, lightgbm, ours, printed, scikit_learn, skglm, spams
from peers.problem import Peer

MODULES = (ours, scikit_learn, adelie, celer, skglm, spams, abess, fastcan, lightgbm, printed)
PEERS: dict[str, Peer] = {name: peer for module in MODULES for name, peer in module.PEERS.items()}
MODULE_OF = {name: module.__name__ for module in MODULES for name in module.PEERS}
