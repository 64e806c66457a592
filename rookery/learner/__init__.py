"""The worker processes: learn from rows and publish states."""
