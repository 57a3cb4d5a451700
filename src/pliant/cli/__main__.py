"""``python -m pliant.cli``: the command line, where ``pliant`` itself is not on the path."""

from pliant.cli import main

if __name__ == "__main__":
    main()
