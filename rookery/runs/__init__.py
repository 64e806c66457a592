"""A run on disk: session, log, checkpoints, `Run`."""
