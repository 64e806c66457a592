"""Studies of trained agents: crossplay, Schelling diagrams, independence."""
