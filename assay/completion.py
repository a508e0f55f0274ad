"""Command `completion`: prints a script by which a shell completes `assay` and its options.

The script is fixed text, so that pressing tab starts no Python. Its options are those of the parsers that the commands
themselves make.
"""

import argparse
import importlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import shtab

from assay.commands import COMMANDS

SHELLS = ("bash", "zsh", "fish")


class _Parser(Exception):
    """Carries a command's parser out of its `main`."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        super().__init__()
        self.parser = parser


@contextmanager
def _no_parsing() -> Iterator[None]:
    """Let every parser hand itself over where it would parse: a command then does nothing else."""

    def hand_over(parser: argparse.ArgumentParser, *_: Any, **__: Any) -> NoReturn:
        raise _Parser(parser)

    parse = argparse.ArgumentParser.parse_args
    argparse.ArgumentParser.parse_args = hand_over  # type: ignore[assignment]
    try:
        yield
    finally:
        argparse.ArgumentParser.parse_args = parse  # type: ignore[method-assign]


def parser_of(command: str) -> argparse.ArgumentParser:
    """Return the parser that a command would read its options with."""
    try:
        with _no_parsing():
            importlib.import_module(f"assay.{command}").main([])
    except _Parser as found:
        return found.parser
    raise AssertionError(f"{command} reads no options")


def parser_of_all() -> argparse.ArgumentParser:
    """Return one parser with every command below it, for the script alone."""
    whole = argparse.ArgumentParser(prog="assay")
    commands = whole.add_subparsers()
    for name, command in COMMANDS.items():
        commands.add_parser(name, help=command.what, parents=[parser_of(name)], add_help=False)
    return whole


def _options() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(
        prog="python -m assay completion", description="Print a script by which a shell completes `assay`."
    )
    options.add_argument("shell", choices=SHELLS, help="the shell")
    return options


def main(argv: Sequence[str]) -> int:
    """Print the script and return 0."""
    shell = _options().parse_args(argv).shell
    sys.stdout.write(shtab.complete(parser_of_all(), shell=shell) + "\n")
    return 0
