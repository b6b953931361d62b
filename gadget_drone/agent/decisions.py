"""What the user of a turn has decided: the policy as it is now, and the answers to inquiries of any of its agents."""

import asyncio
from collections.abc import Callable, Iterable

from gadget_api.inquiries import Inquiry, InquiryAnswer, InquiryStatus
from gadget_api.permissions import Policy


class Decisions:
    """`inquiries`: what the turn asked before it came to this drone."""

    def __init__(
        self,
        policy: Policy = Policy(),  # noqa: B008 (frozen)
        inquiries: Iterable[Inquiry] = (),
    ) -> None:
        self._policy = policy
        self.on_policy: Callable[[], object] = lambda: None
        """Called when the policy has changed."""
        self.asked: set[str] = set()
        """Ids of the inquiries that the server has, or will get from the journal."""
        self._answers: dict[str, InquiryAnswer] = {}
        self._asking = 0
        self._changed = asyncio.Event()
        for inquiry in inquiries:
            self.asked.add(inquiry.id)
            if inquiry.answer is not None and inquiry.status is not InquiryStatus.WITHDRAWN:
                answer = InquiryAnswer(inquiry_id=inquiry.id, status=inquiry.status, answer=inquiry.answer)
                self._answers[inquiry.id] = answer

    @property
    def is_asking(self) -> bool:
        """Whether an agent waits for its user."""
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

    def put(self, answer: InquiryAnswer) -> None:
        """The first answer to an inquiry counts."""
        self._answers.setdefault(answer.inquiry_id, answer)
        self._changed.set()

    async def answer_to(self, inquiry: str, is_moot: Callable[[], bool]) -> InquiryAnswer | None:
        """Waits for the answer, however long that takes. None when a change of the policy makes the question moot."""
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
