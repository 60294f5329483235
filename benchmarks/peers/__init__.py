"""One adapter per peer: what people would use instead, on the same data.

Every module has ``PEERS``, a mapping of names to ``Peer`` records. A peer's package is imported when it is used, so a
package that is missing is a line of the report and no error. This file imports nothing: a peer with an environment of
its own is run where budgetline is not installed.
"""
