"""Puts a run together, in one process or in several."""
