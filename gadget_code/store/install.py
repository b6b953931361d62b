"""An administrator's settings for the whole install."""

from pymongo.asynchronous.collection import AsyncCollection

from gadget_api.permissions import InstallRules
from gadget_code.store.records import Document, load, stamped, store_errors

_RULES = "rules"


class InstallStore:
    def __init__(self, collection: AsyncCollection[Document]) -> None:
        self.collection = collection

    async def rules(self) -> InstallRules:
        """Returns the rules that apply to every user."""
        with store_errors():
            document = await self.collection.find_one({"_id": _RULES})
        if document is None:
            return InstallRules()
        return InstallRules(rules=load(document)["rules"])

    async def put_rules(self, rules: InstallRules) -> None:
        with store_errors():
            await self.collection.replace_one({"_id": _RULES}, stamped(rules.model_dump()), upsert=True)
