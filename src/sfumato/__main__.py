"""`python -m sfumato` is the command `sfumato`."""

from sfumato.cli.main import program

if __name__ == "__main__":
    program()
