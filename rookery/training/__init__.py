"""Builds a run from its parts, and trains it in one process or in several."""
