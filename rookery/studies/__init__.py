"""Studies of agents: crossplay, Schelling diagrams, proofs of independence."""
