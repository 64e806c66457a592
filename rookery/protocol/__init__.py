"""What processes share and what they wait for: docs/protocol.md, as code."""
