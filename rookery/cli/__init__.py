"""The command line: `rookery`."""
