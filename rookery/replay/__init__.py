"""One agent's experience: rows, n-step transitions, buffers. No torch, no game."""
