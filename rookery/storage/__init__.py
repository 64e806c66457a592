"""Durable files: atomic writes, arrays, checkpoints."""
