"""A progress bar on the terminal, with rich."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Report = Callable[[int, int, str], None]


@contextmanager
def progress_bars(show: bool) -> Iterator[Callable[[object], Report | None]]:
    """Yield a function that opens a bar by its title and returns its `report(done, total, note)`.

    Bars may be reported to from several threads.
    """
    if not show:
        yield lambda title: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TextColumn("{task.fields[note]}"),
    )  # fmt: skip
    with Progress(*columns) as bars:

        def open_bar(title: object) -> Report:
            task = bars.add_task(str(title), total=None, note="")

            def report(done: int, total: int, note: str) -> None:
                bars.update(task, completed=done, total=total)
                if note:
                    bars.update(task, note=note)

            return report

        yield open_bar
