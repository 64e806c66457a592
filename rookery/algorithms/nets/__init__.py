"""Networks for groups of agents."""
