"""Which cases of the matrix run always, and which only in the full selection."""

from collections.abc import Collection, Iterable

import pytest

from tests.faults.moments import Moment

full = pytest.mark.slow_fault
WHILE_IT_RUNS = tuple(moment for moment in Moment if moment is not Moment.BEFORE_ACCEPT)


def moments(quick: Collection[Moment] = tuple(Moment), *, of: Iterable[Moment] = tuple(Moment)) -> pytest.MarkDecorator:
    """Parametrises `moment`: those of `of`, which run always when they are in `quick`."""
    cases = [pytest.param(moment, marks=[] if moment in quick else [full]) for moment in of]
    return pytest.mark.parametrize("moment", cases)
