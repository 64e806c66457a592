"""Seeing what a run does: metrics, events and the view in the terminal."""
