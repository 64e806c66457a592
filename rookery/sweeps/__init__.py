"""Sweeps: many runs in one folder, which share out the work among processes."""
