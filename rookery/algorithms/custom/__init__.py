"""Algorithms and networks that users bring."""
