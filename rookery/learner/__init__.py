"""Everything a learning process does."""
