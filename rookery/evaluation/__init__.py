"""Playing without learning: matches, recordings, trained agents, probes."""
