"""What reaches a running turn from outside: the user's cancel, steering, answers and permissions, and the drone's own
stop."""

import asyncio
from collections.abc import Callable, Collection, Iterable

from gadget_api.inquiries import Inquiry, InquiryAnswer, InquiryStatus
from gadget_api.permissions import Policy
from gadget_api.turns import MAX_STEERS, Steer


class Stopping(Exception):
    """The drone stops: the turn is left as it is, to be gone on with when a drone starts here again."""


class Control:
    """`steers` wait for the first step; those whose id is in `steered` were before the model already. `inquiries` are
    what the turn asked before it came to this drone."""

    def __init__(
        self,
        steers: Iterable[Steer] = (),
        *,
        steered: Collection[str] = (),
        policy: Policy = Policy(),  # noqa: B008 (frozen)
        inquiries: Iterable[Inquiry] = (),
    ) -> None:
        self.may_begin = asyncio.Event()
        """Set when the server has said that the turn is ours still. Before, no model is asked and no tool runs."""
        self.is_cancelled = False
        self.is_stopping = False
        self.is_working = False
        """Whether the work has begun: a task that is cancelled before would end without a word."""
        self._policy = policy
        self.on_policy: Callable[[], object] = lambda: None
        """Called when it has changed."""
        self.asked: set[str] = set()
        """Ids of the inquiries that the server has, or will get from the journal."""
        self._answers: dict[str, InquiryAnswer] = {}
        self._asking = 0
        self._changed = asyncio.Event()
        self._waiting: list[Steer] = []
        self._seen = set(steered)
        for steer in steers:
            self._take(steer)
        for inquiry in inquiries:
            self.asked.add(inquiry.id)
            if inquiry.answer is not None and inquiry.status is not InquiryStatus.WITHDRAWN:
                self.put_answer(InquiryAnswer(inquiry_id=inquiry.id, status=inquiry.status, answer=inquiry.answer))

    def steer(self, steer: Steer) -> bool:
        """Takes a message for the next step; the same id again changes nothing. False: too many wait already."""
        if steer.steer_id not in self._seen and len(self._waiting) >= MAX_STEERS:
            return False
        self._take(steer)
        return True

    def take_steers(self) -> list[Steer]:
        """The messages that wait, in the order they came."""
        waiting, self._waiting = self._waiting, []
        return waiting

    @property
    def is_asking(self) -> bool:
        """Whether the turn waits for its user."""
        return self._asking > 0

    @property
    def policy(self) -> Policy:
        """As it is now; the next tool call is judged by it."""
        return self._policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        self._policy = policy
        self._changed.set()
        self.on_policy()

    def put_answer(self, answer: InquiryAnswer) -> None:
        """The first one counts."""
        self._answers.setdefault(answer.inquiry_id, answer)
        self._changed.set()

    async def answer_to(self, inquiry: str, is_moot: Callable[[], bool]) -> InquiryAnswer | None:
        """Waits for it, however long that takes; one that is there already is answered at once. None when a change of
        the policy has made the question moot."""
        self._asking += 1
        try:
            while inquiry not in self._answers:
                if is_moot():
                    return None
                self._changed.clear()
                await self._changed.wait()
            return self._answers[inquiry]
        finally:
            self._asking -= 1

    def check(self) -> None:
        """Between two steps. Raises Stopping."""
        if self.is_stopping:
            raise Stopping

    def _take(self, steer: Steer) -> None:
        if steer.steer_id not in self._seen:
            self._seen.add(steer.steer_id)
            self._waiting.append(steer)
