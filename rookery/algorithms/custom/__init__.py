"""Networks and algorithms that users write, loaded by path."""
