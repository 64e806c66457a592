"""What Python users call; the command line is a thin layer over the same functions."""
