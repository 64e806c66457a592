"""Shared memory: blocks, counters, versions, reports. Knows nothing about RL."""
