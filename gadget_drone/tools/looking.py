"""Looking through the project's files with ripgrep, where its commands run: in the sandbox, where there is one.

Outside of it, a command that still runs could lead ripgrep to any file of the account: it exchanges a directory for a
link between ripgrep's look at the name and its opening. In the sandbox the kernel holds what may be read.
"""

import asyncio
import os
from collections.abc import Callable, Sequence

from gadget_drone.errors import ToolError
from gadget_drone.git.settings import user_ignored
from gadget_drone.processes.ripgrep import VISIBLE, Ran, ripgrep
from gadget_drone.tools.tool import ToolContext


async def look(
    context: ToolContext,
    options: Sequence[str],
    operands: Sequence[str],
    *,
    separator: bytes,
    take: Callable[[str], bool],
) -> Ran:
    """As `ripgrep`, of what the ignore files leave. `operands` cannot be taken for options. Raises ToolError."""
    ignored = await asyncio.to_thread(user_ignored)  # by its path, for the sandbox has another home
    ours = [] if ignored is None or not os.path.isfile(ignored) else [f"--ignore-file={ignored}"]
    arguments = [*options, "--no-ignore-global", *ours, *VISIBLE, "--", *operands]
    ran = await ripgrep(arguments, context.start, separator=separator, take=take)
    if ran.status < 0:
        raise ToolError("ripgrep was ended before it was done: try again.")
    return ran
