"""Games: the contract, the grid engine, games of our own, and foreign ones."""
