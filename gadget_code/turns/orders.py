"""Work orders: everything a drone needs for a turn, put together when it is offered."""

from gadget_api.turns import ChatTurn
from gadget_api.work_order import (
    OrderProject,
    OrderProvider,
    OrderSession,
    OrderTurn,
    OrderUser,
    ResumePoint,
    WorkOrder,
)
from gadget_code.store.database import Store


async def work_order(store: Store, turn: ChatTurn) -> WorkOrder:
    """The order of a turn as it is dispatched now. Raises NotFound when its project, session or provider is gone."""
    project = await store.projects.owned(turn.user, turn.project)
    session = await store.sessions.owned(turn.user, turn.session)
    provider = await store.providers.owned(turn.user, turn.provider)
    user = await store.users.get(turn.user)
    model = next((model for model in provider.models if model.id == turn.llm), None)
    order_provider = OrderProvider(
        id=provider.id,
        name=provider.name,
        sdk=provider.api_type,
        base_url=provider.base_url,
        api_key=await store.providers.key_of(provider),
        model_id=turn.llm,
    )
    if model is not None:
        order_provider = order_provider.replace(
            context_window=model.context_window, params=model.params, price=model.price
        )
    return WorkOrder(
        # One turn is one order, however often it is offered.
        work_order_id=turn.id,
        epoch=turn.epoch,
        project=OrderProject(id=project.id, name=project.name, slug=project.slug, git_url=project.git_url),
        session=OrderSession(id=session.id, name=session.name, mode=turn.mode),
        provider=order_provider,
        turn=OrderTurn(
            id=turn.id,
            created_at=turn.created_at,
            user=OrderUser(id=user.id, email=user.email, display_name=user.display_name),
        ),
        prompt=turn.prompts.user,
        workspace_id=turn.workspace_id,
        after_turn=await store.turns.before(turn),
        resume=ResumePoint(acked_seq=turn.last_seq, stats=turn.stats) if turn.last_seq else None,
        steers=turn.steers,
    )
