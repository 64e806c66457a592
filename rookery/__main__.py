"""`python -m rookery` is the command line."""

from rookery.cli.app import main

main()
