"""Everything the acting process does."""
