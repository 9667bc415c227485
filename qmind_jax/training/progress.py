"""A progress bar that is fed from inside the computation."""

import queue
import threading
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class TrainingProgress:
    """Context manager that shows a bar; pass the object itself as ``report`` to ``train``.

    Args:
        num_updates: Updates in all.
        console: Where to draw; standard error if None.
    """

    def __init__(self, num_updates: int, console: Console | None = None) -> None:
        self._progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("updates, mean return [bold]{task.fields[mean_return]}"),
            TimeRemainingColumn(),
            console=console or Console(stderr=True),
        )
        self._task = self._progress.add_task("training", total=num_updates, mean_return="...")

        # The computation calls from a thread of XLA's pool. Reading an array there can wait for that very
        # pool, for ever if it has one thread, so that the numbers are read in a thread of our own.
        self._news: queue.SimpleQueue[tuple[Any, Any] | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._draw, daemon=True)

    def __call__(self, update: Any, mean_return: Any) -> None:
        """Take note of an update; called from inside ``jit``, returns at once."""
        self._news.put((update, mean_return))

    def _draw(self) -> None:
        while (news := self._news.get()) is not None:
            update, mean_return = news
            self._progress.update(self._task, completed=int(update), mean_return=f"{float(mean_return):.2f}")

    def __enter__(self) -> Self:
        self._progress.start()
        self._reader.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._news.put(None)
        self._reader.join(timeout=5.0)
        self._progress.stop()
