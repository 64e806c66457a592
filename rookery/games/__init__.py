"""Games: the contract, the grid engine, built-in games, and adapters to foreign ones."""
