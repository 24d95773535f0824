"""How a wrong call of the command ends: in one sentence, or in JSON where that was asked for."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperGroup

from ._voice import STOPPED, WRONG, Voice

__all__ = ["Group"]

# click's base of what is wrong with a call, from wherever typer has it.
_CallError: Any = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")


class Group(TyperGroup):
    """The commands."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        words = sys.argv[1:] if args is None else list(args)
        voice = Voice(as_json="--json" in words)
        try:
            status = super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
        except _CallError as error:
            status = WRONG
            if type(error).__name__ == "NoArgsIsHelpError":
                error.show()
            else:
                hint = f" See {error.ctx.command_path} --help." if getattr(error, "ctx", None) else ""
                voice.fail(f"{error.format_message().rstrip('.')}.{hint}", WRONG)
        except typer.Abort:
            status = STOPPED
        if not standalone_mode:
            return status
        sys.exit(status or 0)
