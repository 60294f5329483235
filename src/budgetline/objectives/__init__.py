"""Objectives: what a group would gain, and what choosing it changes."""
