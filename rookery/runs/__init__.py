"""A run on disk: its folder, session, log and checkpoints, and `Run` to read it."""
