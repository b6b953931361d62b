"""The inquiries of turns, and their answers."""

from fastapi import APIRouter

from gadget_api.inquiries import Answer, Inquiry, InquiryStatus
from gadget_code.routes.access import DEFAULT_LIMIT, IdeCaller, Limit, WithService
from gadget_code.store.records import Page

router = APIRouter(prefix="/inquiries", tags=["inquiries"])


@router.get("")
async def list_inquiries(
    caller: IdeCaller,
    service: WithService,
    limit: Limit = DEFAULT_LIMIT,
    cursor: str | None = None,
    status: InquiryStatus | None = None,
    session: str | None = None,
) -> Page[Inquiry]:
    """Lists inquiries. Those of finished turns are kept for 30 days."""
    query = {
        "user": caller.user,
        **({"status": status} if status is not None else {}),
        **({"session": session} if session is not None else {}),
    }
    return await service.store.inquiries.page(query, limit=limit, cursor=cursor)


@router.get("/{inquiry_id}")
async def get_inquiry(inquiry_id: str, caller: IdeCaller, service: WithService) -> Inquiry:
    return await service.store.inquiries.owned(caller.user, inquiry_id)


@router.post("/{inquiry_id}/answer")
async def answer_inquiry(inquiry_id: str, answer: Answer, caller: IdeCaller, service: WithService) -> Inquiry:
    """Answers an inquiry. The first answer counts; the same answer again succeeds."""
    return await service.inquiries.answer(caller.user, inquiry_id, answer)
