"""``fabric-tools``: the commands, and the one place where errors become exit codes."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from typing import Annotated

import typer

from fabric_tools import __version__
from fabric_tools.cli import browse, collect, docs, doctor, drift, ledger, validate
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
ledger.register(app)
drift.register(app)
docs.register(app)


def run() -> None:
    """Console entry. Every way out has its exit code; an uncaught exception is 70, never 1."""
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()
    except FabricToolsError as error:
        code = _say(error, error.exit_code)
        _trace(error.exit_code)
    except KeyboardInterrupt:
        code = _say("interrupted", Exit.INTERRUPTED)
    except Exception as error:
        code = _other(error)
    except SystemExit as error:
        # The libraries below turn a closed pipe (`| head`) into exit 1, which would read as a
        # verdict. Whoever closed it has not seen one.
        code = Exit.OPEN if error.code in (0, None) else Exit.INTERNAL
        _drop_output()
    raise SystemExit(int(code or 0))


def _other(error: Exception) -> Exit:
    """A usage error of the command line, a closed output, or a fault of ours."""
    if isinstance(error, OSError) and error.errno in (errno.EPIPE, errno.ENOSPC, errno.EBADF):
        _drop_output()
        return _say(f"cannot print: {error.strerror}", Exit.INTERNAL)
    if type(error).__name__ == "NoArgsIsHelpError":
        print(str(getattr(error, "message", "")) or "see --help")
        return Exit.USAGE
    show = getattr(error, "format_message", None)
    if show is not None:
        usage = getattr(error, "ctx", None)
        hint = f"; see `{usage.command_path} --help`" if usage else ""
        return _say(f"{show().rstrip('.')}{hint}", Exit.USAGE)
    if type(error).__name__ == "Abort":
        return _say("interrupted", Exit.INTERRUPTED)
    _trace(Exit.INTERNAL)
    return _say(f"internal error: {type(error).__name__}: {error}; see --debug", Exit.INTERNAL)


def _trace(code: Exit) -> None:
    """With --debug the traceback of an internal error; the exit code stays what it is."""
    if _debug and code is Exit.INTERNAL:
        import traceback

        traceback.print_exc()


def _drop_output() -> None:
    """Nobody reads it: let the interpreter's own last flush go nowhere instead of failing."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(what: object, code: Exit) -> Exit:
    """One line on standard error. What a node or file said has no control characters here."""
    from fabric_tools.report.text import printable

    with contextlib.suppress(OSError, ValueError):
        print(f"fabric-tools: {printable(str(what))}", file=sys.stderr, flush=True)
    return code
