"""Network layers for whole groups of agents."""
