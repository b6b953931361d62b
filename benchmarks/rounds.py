"""Measuring things in turn, so that whatever else the machine does hits all of them alike."""

import time
from collections.abc import Awaitable, Callable, Mapping

Step = Callable[[], Awaitable[None]]


async def times_ms(
    steps: Mapping[str, Step], *, rounds: int, before: Mapping[str, Step] | None = None
) -> dict[str, list[float]]:
    """Runs each step once a round; `before` prepares a step, and is not measured. The first round does not count."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(rounds + 1):
        for name, step in steps.items():
            if before is not None and name in before:
                await before[name]()
            began = time.perf_counter()
            await step()
            if number:
                times[name].append(1000 * (time.perf_counter() - began))
    return times
