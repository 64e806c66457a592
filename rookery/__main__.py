"""`python -m rookery` is the command line."""

from rookery.cli import main

main()
