"""The actor process: plays all worlds, writes rows, and runs evaluations."""
