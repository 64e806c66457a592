"""Settings: what a user may choose, read from words and files, and checked at once."""
