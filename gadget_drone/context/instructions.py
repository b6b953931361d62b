"""What the project says to agents: AGENTS.md at its root, and those in directories below for what is in them.

The one at the root is part of the system prompt, read once for a turn. The nested ones come with the result of the
first call that touches a path they are for: so nothing that was sent before has to change. Which were given is read
from the conversation, by their first and last lines, so that a turn that goes on elsewhere gives none twice, and one
whose text was removed by a compaction is given again.

A repository may bring a symlink to somebody's secret under such a name, so no link is followed, and a file that the
rules keep from the model is left out.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path, PurePosixPath

from gadget_api.disguise import without_hidden
from gadget_api.messages import Message, ToolMessage
from gadget_drone.clip import head
from gadget_drone.disk.confined import open_file, relative
from gadget_drone.errors import ToolError
from gadget_drone.permissions.covered import Covered

NAMES = ("AGENTS.md", "CLAUDE.md")
"""The first of these that is there counts."""
MAX_ROOT_BYTES = 32_000
MAX_NESTED_BYTES = 8_000
MAX_DEPTH = 20
"""Directories below this deep have no instructions of their own."""

_BEGIN = "[instructions of the project, from "
_END = "[end of the instructions]"
_BEGINS = re.compile(rf"^{re.escape(_BEGIN)}(.+)\]$", re.MULTILINE)


class Instructions:
    """Of one project, for one turn."""

    def __init__(self, project_dir: Path, hidden: Callable[[], Sequence[str]] = lambda: ()) -> None:
        """`hidden`: what may not be read now, as patterns of .gitignore. Blocks: reads what is at the root."""
        self._project_dir = project_dir
        self._hidden = hidden
        found = self._read(PurePosixPath("."), MAX_ROOT_BYTES)
        self.root = found[1] if found is not None else None
        """For the system prompt; None where there are none."""
        self._settled: set[PurePosixPath] = {PurePosixPath(".")}
        """Directories whose instructions were given, or that have none."""

    def follow(self, messages: Iterable[Message]) -> None:
        """The conversation is this: what is in it was given, anything else was not."""
        given = {
            PurePosixPath(name).parent
            for message in messages
            if isinstance(message, ToolMessage) and message.content.endswith(_END)
            for name in _BEGINS.findall(message.content)
        }
        self._settled = {PurePosixPath("."), *given}

    def is_settled(self, path: str) -> bool:
        """Whether `for_path` has nothing to say about `path`; without looking at the disk."""
        return not self._unsettled(path)

    def for_path(self, path: str) -> str | None:
        """What applies to `path` and was not given yet, the nearest last; to be put at the very end of the result of
        the call that touched it. None for nothing, for a path outside of the project, and for the second of two calls.

        Blocks: reads a few small files the first time it sees a directory. `path` is as the model writes it.
        """
        blocks = []
        for directory in self._unsettled(path):
            self._settled.add(directory)
            found = self._read(directory, MAX_NESTED_BYTES)
            if found is not None:
                blocks.append(f"{_BEGIN}{found[0]}]\n{found[1]}")
        return "\n\n".join([*blocks, _END]) if blocks else None

    def _unsettled(self, path: str) -> list[PurePosixPath]:
        try:
            given = relative(self._project_dir, path)
        except ToolError:
            return []
        if ".." in given.parts:
            return []
        deeper = [given, *given.parents][::-1]
        return [place for place in deeper if place not in self._settled and len(place.parts) <= MAX_DEPTH]

    def _read(self, directory: PurePosixPath, max_bytes: int) -> tuple[str, str] | None:
        """The name of the file in `directory` that counts, and its text."""
        if not str(directory).isprintable():
            return None  # its name could look like a line of ours
        hidden = Covered(self._hidden())
        for name in NAMES:
            path = str(directory / name)
            if hidden.covers(path):
                continue
            try:
                with open_file(self._project_dir, path) as file:
                    data = file.read(max_bytes + 1)
            except ToolError:
                continue
            text = _plain(data.decode("utf-8", "replace"))
            if len(data) > max_bytes:
                text = f"{head(text, max_bytes)}\n[cut: {path} is longer than {max_bytes} bytes]"
            if text:
                return path, text
        return None


def _plain(text: str) -> str:
    """`text` without what a reader would not see, and without lines that look like ours."""
    text = without_hidden(re.sub(r"\r+\n", "\n", text))
    return text.replace(_BEGIN, f"[{_BEGIN}").replace(_END, f"[{_END}").strip()
