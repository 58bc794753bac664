"""`python -m counterplay` is the command `counterplay`."""

from counterplay.cli.main import main

main()
