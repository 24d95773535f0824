"""`python -m evenmargin` is the `evenmargin` command."""

from .cli import main

if __name__ == "__main__":
    main()
