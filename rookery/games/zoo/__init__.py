"""The parts of foreign games: their spaces, their copies and their keywords."""
