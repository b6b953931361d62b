"""Projects."""

from fastapi import APIRouter

from gadget_api.errors import Conflict, ErrorCode
from gadget_api.ids import new_id
from gadget_api.model import utc_now
from gadget_api.projects import NewProject, Project, ProjectChanges
from gadget_code.routes.access import DEFAULT_LIMIT, IdeCaller, Limit, WithService
from gadget_code.store.records import Page

router = APIRouter(prefix="/projects", tags=["projects"])


@router.get("")
async def list_projects(
    caller: IdeCaller, service: WithService, limit: Limit = DEFAULT_LIMIT, cursor: str | None = None
) -> Page[Project]:
    return await service.store.projects.page({"user": caller.user}, limit=limit, cursor=cursor, hint="user")


@router.post("", status_code=201)
async def create_project(new: NewProject, caller: IdeCaller, service: WithService) -> Project:
    project = Project(id=new_id(), created_at=utc_now(), user=caller.user, **dict(new))
    try:
        return await service.store.projects.insert(project)
    except Conflict as exc:
        raise Conflict(
            ErrorCode.ALREADY_EXISTS, f"You have a project “{new.slug}” already; choose another slug."
        ) from exc


@router.get("/{project_id}")
async def get_project(project_id: str, caller: IdeCaller, service: WithService) -> Project:
    return await service.store.projects.owned(caller.user, project_id)


@router.patch("/{project_id}")
async def change_project(project_id: str, changes: ProjectChanges, caller: IdeCaller, service: WithService) -> Project:
    """Changes a project. New rules, and trust in the repository's rules, apply at once, also to running turns."""
    project = await service.store.projects.change({"_id": project_id, "user": caller.user}, changes)
    if changes.rules is not None or changes.trusted is not None:
        await service.policies.changed({"user": project.user, "project": project.id})
    return project


@router.delete("/{project_id}", status_code=204)
async def delete_project(project_id: str, caller: IdeCaller, service: WithService) -> None:
    """Deletes a project. Refused while sessions use it."""
    await service.store.projects.owned(caller.user, project_id)
    if await service.store.sessions.find({"user": caller.user, "project": project_id}) is not None:
        raise Conflict(ErrorCode.ALREADY_EXISTS, "Sessions use this project; delete them first.")
    await service.store.projects.delete(caller.user, project_id)
