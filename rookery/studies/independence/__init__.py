"""The proof that agents share nothing."""
