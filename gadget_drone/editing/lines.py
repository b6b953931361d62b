"""Lines, each with its own ending; and how one list of lines becomes another."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import accumulate

_MAX_COMPARED = 4_000_000
"""Of pairs of lines. difflib takes about 0.1 µs for one at worst."""


@dataclass(frozen=True)
class Lines:
    bodies: list[str]
    """Without their endings."""
    endings: list[str]
    """As long as `bodies`. "" at most for the last, where the final newline is missing."""

    @classmethod
    def of(cls, text: str) -> "Lines":
        *whole, rest = text.split("\n")
        bodies = [line.removesuffix("\r") for line in whole]
        endings = ["\r\n" if line.endswith("\r") else "\n" for line in whole]
        return cls([*bodies, rest], [*endings, ""]) if rest else cls(bodies, endings)

    def __len__(self) -> int:
        return len(self.bodies)

    def text(self, start: int = 0, end: int | None = None) -> str:
        pairs = zip(self.bodies[start:end], self.endings[start:end], strict=True)
        return "".join(body + ending for body, ending in pairs)

    def offsets(self) -> list[int]:
        """Where each line begins in the text, and where the text ends."""
        sizes = (len(body) + len(ending) for body, ending in zip(self.bodies, self.endings, strict=True))
        return list(accumulate(sizes, initial=0))

    def style(self, start: int = 0, end: int | None = None) -> str:
        """The ending that is most frequent between two lines, or else in the whole."""
        counted = Counter(ending for ending in self.endings[start:end] if ending)
        counted = counted or Counter(ending for ending in self.endings if ending)
        return counted.most_common(1)[0][0] if counted else "\n"


@dataclass(frozen=True)
class Op:
    """Lines `old_start:old_end` become lines `new_start:new_end`; as they are where `same`."""

    same: bool
    old_start: int
    old_end: int
    new_start: int
    new_end: int


def ops(old: Sequence[str], new: Sequence[str]) -> list[Op]:
    """How `old` becomes `new`: all of both, in order. Not always the shortest way, but bounded in time."""
    head = _same(old, new)
    tail = _same(old[head:][::-1], new[head:][::-1])
    middle_old, middle_new = old[head : len(old) - tail], new[head : len(new) - tail]
    found = [Op(True, 0, head, 0, head)] if head else []
    if middle_old or middle_new:
        found += _middle(middle_old, middle_new, head)
    if tail:
        found.append(Op(True, len(old) - tail, len(old), len(new) - tail, len(new)))
    return found


def _same(one: Sequence[str], other: Sequence[str]) -> int:
    length = min(len(one), len(other))
    return next((i for i in range(length) if one[i] != other[i]), length)


def _middle(old: Sequence[str], new: Sequence[str], at: int) -> Iterator[Op]:
    if len(old) * len(new) > _MAX_COMPARED:
        yield Op(False, at, at + len(old), at, at + len(new))
        return
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        yield Op(tag == "equal", at + i1, at + i2, at + j1, at + j2)
