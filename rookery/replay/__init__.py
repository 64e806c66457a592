"""One agent's experience: rows, n-step transitions, replay buffer. No torch, no game."""
