"""Settings: declared here, read from overrides and files, and validated together."""
