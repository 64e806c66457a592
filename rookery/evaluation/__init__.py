"""Playing without learning: matches, recordings, trained agents and probes."""
