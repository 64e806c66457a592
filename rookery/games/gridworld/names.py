"""The names that have a meaning in grid games."""

MOVES = ("up", "right", "down", "left")
"""Moves on the map; the agent then faces the direction of its move."""
STEPS = ("forward", "step_right", "backward", "step_left")
"""Moves relative to the agent's facing, which does not change."""
TURNS = ("turn_right", "turn_left")
"""Quarter turns."""

AGENTS = "agents"
"""The layer that agents are on."""
