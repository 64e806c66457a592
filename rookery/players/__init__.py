"""Scripted players: one module per game they were made for."""
