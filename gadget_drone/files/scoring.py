"""How well a path fits what was typed to find it: the letters in their order, better at the starts of words, in a row,
and in the file's name."""

from collections.abc import Iterable, Sequence
from heapq import nsmallest

_START = 8
_IN_A_ROW = 6
_MAX_GAP = 5
_IN_NAME = 20
_NAME_BEGINS = 15
_WHOLE_NAME = 20


def best(paths: Sequence[str], query: str, limit: int) -> tuple[list[str], bool]:
    """The `limit` paths that fit best, of equals the shorter one, and whether more fit. Without a query all fit."""
    terms = query.lower().split()
    fitting = [(-points, len(path), path) for path in paths if (points := score(path, terms)) is not None]
    return [path for _, _, path in nsmallest(limit, fitting)], len(fitting) > limit


def score(path: str, terms: Iterable[str]) -> int | None:
    """Points for lower-case `terms` that all fit; None when one does not."""
    lower = path.lower()
    if len(lower) != len(path):  # as that of `İ`: its positions would be others
        path = lower
    total = 0
    for term in terms:
        points = _term_score(path, lower, term)
        if points is None:
            return None
        total += points
    return total


def _term_score(path: str, lower: str, term: str) -> int | None:
    forward = _forward(lower, term, 0)
    if forward is None:
        return None
    begin = lower.rfind("/") + 1
    in_name = _forward(lower, term, begin) if "/" not in term else None
    if in_name is None:
        return _points(path, lower, term, forward, 0)
    points = _points(path, lower, term, in_name, begin) + _IN_NAME
    name = lower[begin:]
    if name.startswith(term):
        points += _NAME_BEGINS
    if term in (name, name.partition(".")[0]):
        points += _WHOLE_NAME
    return points


def _points(path: str, lower: str, term: str, forward: list[int], begin: int) -> int:
    """The best of three ways to lay the letters onto the path, from `begin` on."""
    ways = [forward, _backward(lower, term, forward[-1])]
    if (starts := _by_starts(path, lower, term, begin)) is not None:
        ways.append(starts)
    return max(_points_of(path, way) for way in ways)


def _points_of(path: str, places: list[int]) -> int:
    points = 0
    before: int | None = None
    for at in places:
        points += 1
        if before is not None and at == before + 1:
            points += _IN_A_ROW
        elif before is not None:
            points -= min(at - before - 1, _MAX_GAP)
        if _is_start(path, at):
            points += _START
        before = at
    return points


def _is_start(path: str, at: int) -> bool:
    """Whether a word begins there: after anything but a letter or digit, or with the capital of `camelCase`."""
    if at == 0 or not path[at - 1].isalnum():
        return path[at].isalnum()
    return path[at].isupper() and not path[at - 1].isupper()


def _forward(lower: str, term: str, begin: int) -> list[int] | None:
    """Each letter as early as may be; None when they are not all there."""
    places = []
    at = begin - 1
    for letter in term:
        at = lower.find(letter, at + 1)
        if at < 0:
            return None
        places.append(at)
    return places


def _backward(lower: str, term: str, last: int) -> list[int]:
    """Each letter as late as may be when the last is at `last`: close together."""
    places = []
    end = last + 1
    for letter in reversed(term):
        end = lower.rfind(letter, 0, end)
        places.append(end)
    return places[::-1]


def _by_starts(path: str, lower: str, term: str, begin: int) -> list[int] | None:
    """Each letter next to the one before, else at the next start of a word, else wherever it comes next."""
    places: list[int] = []
    for letter in term:
        after = places[-1] + 1 if places else begin
        at = after if places and lower.startswith(letter, after) else -1
        search = after
        while at < 0 and (search := lower.find(letter, search)) >= 0:
            if _is_start(path, search):
                at = search
            search += 1
        if at < 0:
            at = lower.find(letter, after)
        if at < 0:
            return None
        places.append(at)
    return places
