"""``python -m fabric_tools``: the command line, for callers that know only the interpreter."""

from fabric_tools.cli.main import run

if __name__ == "__main__":
    run()
