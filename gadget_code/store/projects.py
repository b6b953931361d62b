"""Projects."""

from pymongo import IndexModel
from pymongo.asynchronous.collection import AsyncCollection

from gadget_api.permissions import Rule, Trust
from gadget_api.projects import Project
from gadget_code.store.records import Document, Records
from gadget_code.store.sessions import without_rule

INDEXES = [
    IndexModel([("user", 1), ("slug", 1)], name="slug", unique=True),
    IndexModel([("user", 1), ("_id", -1)], name="user"),
]


class ProjectStore(Records[Project]):
    def __init__(self, collection: AsyncCollection[Document]) -> None:
        super().__init__(collection, Project, "project")

    async def trust(self, project: str, trust: Trust) -> Project | None:
        """Returns None when the project does not exist."""
        return await self.update({"_id": project}, {"trust": trust.model_dump()})

    async def add_rule(self, project: str, rule: Rule) -> Project | None:
        """Returns None when it has the rule already, or `MAX_RULES` others."""
        return await self.update(without_rule(project, rule), {}, push={"rules": rule.model_dump()})
