"""``fabric-tools``: the commands, and the one place where errors become exit codes."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from fabric_tools import __version__
from fabric_tools.cli import browse, collect, docs, doctor, validate
from fabric_tools.errors import Exit, FabricToolsError

EXIT_CODES = (
    "Exit codes: 0 gates open, 1 closed by a fault, 2 usage, 3 closed because it could not tell, "
    "4 node not reached, 70 internal error, 130 interrupted."
)

app = typer.Typer(
    name="fabric-tools",
    help="Judge GPU nodes: what a node really says against what its platform should be.",
    epilog=EXIT_CODES,
    rich_markup_mode=None,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an internal error.")
    ] = False,
) -> None:
    """Judge GPU nodes: what a node really says against what its platform should be."""
    global _debug
    _debug = debug


_debug = False

validate.register(app)
collect.register(app)
browse.register(app)
doctor.register(app)
docs.register(app)


def run() -> None:
    """Console entry. Every way out has its exit code; an uncaught exception is 70, never 1."""
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()
    except FabricToolsError as error:
        code = _say(error, error.exit_code)
    except KeyboardInterrupt:
        code = _say("interrupted", Exit.INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output has gone (`| head`); its verdict was not seen whole.
        sys.stderr.close()
        code = Exit.INTERNAL
    except Exception as error:
        code = _other(error)
    raise SystemExit(int(code or 0))


def _other(error: Exception) -> Exit:
    """A usage error of the command line, or a fault of ours."""
    if type(error).__name__ == "NoArgsIsHelpError":
        print(str(getattr(error, "message", "")) or "see --help")
        return Exit.USAGE
    show = getattr(error, "format_message", None)
    if show is not None:
        usage = getattr(error, "ctx", None)
        hint = f"; see `{usage.command_path} --help`" if usage else ""
        text = show()
        return Exit.OPEN if not text else _say(f"{text.rstrip('.')}{hint}", Exit.USAGE)
    if type(error).__name__ == "Abort":
        return _say("interrupted", Exit.INTERRUPTED)
    if _debug:
        raise error
    return _say(f"internal error: {type(error).__name__}: {error}; see --debug", Exit.INTERNAL)


def _say(what: object, code: Exit) -> Exit:
    """One line on standard error. What a node or file said has no control characters here."""
    from fabric_tools.report.text import printable

    print(f"fabric-tools: {printable(str(what))}", file=sys.stderr)
    return code
