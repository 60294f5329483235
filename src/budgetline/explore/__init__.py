"""Pricing groups and planning budgets in a browser: one session's state, its edits, its results, and a small server."""

__all__: list[str] = []
