"""What processes share, and who waits for whom: docs/protocol.md, as code."""
