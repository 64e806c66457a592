"""Who waits for whom: docs/protocol.md, as code."""
