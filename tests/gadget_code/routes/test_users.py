"""The list of accounts is the administrators'."""

from tests.gadget_code.peers import problem
from tests.harness import User


async def test_only_an_administrator_sees_the_accounts(user: User) -> None:
    problem(await user.http.get("/users"), 403, "notAllowed")
