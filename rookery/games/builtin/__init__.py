"""The built-in games, one file each: the scripted players first, then the rules."""
