"""Shared memory: blocks, counters, versions, reports. Nothing here knows about learning."""
