"""What the command prints, for people or for programs, and how it ends.

Results go to standard output; notes, progress and errors to standard error. With `--json` standard output is one
JSON document, whatever happens. Exit codes: 0, done; 1, the work failed; 2, a wrong input or call; 130, Ctrl-C.
"""

from __future__ import annotations

import errno
import json
import math
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.progress import Progress
from rich.table import Table
from typer.core import TyperGroup

from .._util.sentences import in_one_line

FAILED, WRONG, STOPPED = 1, 2, 130

# click's base of what is wrong with a call, from wherever typer has it.
_CallError: Any = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")


class Voice:
    """Where a command puts what it has to say; `facts` are what `--json` prints."""

    def __init__(self, *, as_json: bool = False, quiet: bool = False, debug: bool = False) -> None:
        self.json, self.debug = as_json, debug
        self.out = Console(quiet=quiet or as_json)
        self.err = Console(stderr=True, quiet=quiet or as_json)
        self.errors = Console(stderr=True)
        self.facts: dict[str, Any] = {}
        self.notes: list[str] = []
        self.done = False

    @property
    def lively(self) -> bool:
        """Whether someone is watching."""
        return self.err.is_terminal and not self.err.quiet

    def say(self, text: str = "", *, aside: bool = False) -> None:
        """Print a line of the result; aside: to standard error, where standard output has something else."""
        _print(self.err if aside else self.out, text)

    def note(self, *texts: str) -> None:
        """Print notes on standard error, each only once."""
        for text in texts:
            if text not in self.notes:
                self.notes.append(text)
                _print(self.err, text, "yellow")

    def wrote(self, what: str, path: Path, *, key: str = "", hint: str = "", aside: bool = False) -> None:
        """Say which file was written: from now on, stopping no longer means that nothing was."""
        self.done = True
        self.facts[key or what] = path
        self.say(f"{what}: {path}{hint}", aside=aside)

    def error(self, sentence: str) -> None:
        """Print what is wrong; work goes on."""
        _print(self.errors, sentence, "red")

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str]], title: str) -> None:
        """Print a table: words to the left, figures to the right."""
        self.say(title)
        table = Table(box=box.SIMPLE_HEAD)
        for place, name in enumerate(columns):
            table.add_column(shown(self.out, name), justify="right" if place else "left", no_wrap=True)
        for row in rows:
            table.add_row(*(escape(shown(self.out, cell)) for cell in row))
        # A narrow terminal folds lines; it must not cut figures.
        wide = Console(width=1_000)
        Console(width=Measurement.get(wide, wide.options, table).maximum, quiet=self.out.quiet).print(table)

    @contextmanager
    def progress(self, what: str, total: float | None = None) -> Iterator[Callable[..., None]]:
        """Show a progress bar, and give the function that moves it on; without a total it moves by itself."""
        with Progress(console=self.err, transient=True, disable=not self.lively) as bars:
            task = bars.add_task(escape(shown(self.err, what)), total=total)

            def advance(step: float, note: str = "") -> None:
                bars.update(task, advance=step, description=escape(shown(self.err, f"{what} {note}".strip())))

            yield advance

    def fail(self, sentence: str, status: int) -> typer.Exit:
        """Print what is wrong, and return the exception that ends the command."""
        if self.debug and sys.exc_info()[0] is not None:
            traceback.print_exc()
        if self.json:
            try:
                print(json.dumps({"error": sentence, "exit_code": status, "notes": self.notes}), flush=True)
            except OSError:  # which may be what the sentence is about
                _close_output()
        self.error(sentence)
        return typer.Exit(status)

    def close(self) -> None:
        if self.json:
            print(json.dumps(_plain({**self.facts, "notes": self.notes}), allow_nan=False))
            sys.stdout.flush()


@contextmanager
def speaking(*, as_json: bool = False, quiet: bool = False, debug: bool = False) -> Iterator[Voice]:
    """Give a voice to the command in the block, whose errors become one sentence and an exit code."""
    voice = Voice(as_json=as_json, quiet=quiet, debug=debug)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            for category in (DeprecationWarning, PendingDeprecationWarning, FutureWarning, ResourceWarning):
                warnings.simplefilter("ignore", category)  # not the user's
            warnings.showwarning = lambda message, *rest: voice.note(in_one_line(message))
            yield voice
        voice.close()
    except typer.Exit:
        raise
    except KeyboardInterrupt:
        raise voice.fail("Stopped." if voice.done else "Stopped: nothing was written.", STOPPED) from None
    except BrokenPipeError:
        _close_output()  # whoever read it has gone
        raise typer.Exit(FAILED) from None
    except MemoryError:
        raise voice.fail("There is not enough memory: give a smaller table, or close other programs.", FAILED) from None
    except OSError as error:
        if error.filename is None and error.errno in (errno.ENOSPC, errno.EIO):
            _close_output()
        named = error.filename is not None and error.strerror is not None
        sentence = f"{error.filename}: {error.strerror}." if named else in_one_line(error)
        raise voice.fail(sentence, WRONG) from None
    except (ValueError, ImportError) as error:
        raise voice.fail(in_one_line(error), WRONG) from None
    except Exception as error:
        hint = "" if debug else " (--debug shows where)"
        raise voice.fail(f"Something went wrong: {type(error).__name__}: {in_one_line(error)}{hint}", FAILED) from None


class Commands(TyperGroup):
    """The commands. A wrong call ends in one sentence, or in JSON where that was asked for."""

    def main(self, *args: Any, **options: Any) -> Any:
        words = args[0] if args else options.get("args")
        voice = Voice(as_json="--json" in (sys.argv[1:] if words is None else words))
        try:
            status = super().main(*args, **options | {"standalone_mode": False})
        except _CallError as error:
            status = WRONG
            if type(error).__name__ == "NoArgsIsHelpError":
                error.show()
            else:
                hint = f" See {error.ctx.command_path} --help." if getattr(error, "ctx", None) else ""
                sentence = error.format_message().rstrip(".")
                voice.fail(f"{sentence}{'' if sentence.endswith('?') else '.'}{hint}", WRONG)
        except typer.Abort:
            status = STOPPED
        if options.get("standalone_mode", True):
            sys.exit(status or 0)
        return status


def shown(console: Console, text: str) -> str:
    """Replace letters that the terminal cannot show, and those that would control it."""
    text = "".join(letter if letter.isprintable() or letter in "\n\t" else "\ufffd" for letter in text)
    return text.encode(console.encoding, errors="replace").decode(console.encoding)


def _print(console: Console, text: str, style: str | None = None) -> None:
    console.print(shown(console, text), style=style, markup=False, highlight=False, soft_wrap=True)


def _close_output() -> None:
    """Keep Python from writing to a closed standard output when it ends."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _plain(value: Any) -> Any:
    """Turn a value into what JSON can hold: no NaN, no NumPy, no paths."""
    if isinstance(value, Mapping):
        return {str(key): _plain(own) for key, own in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(own) for own in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | bool | None) else str(value)
