"""`gadget-code user`: manages accounts directly in the database, for the operator of the install."""

from pydantic import ValidationError

from gadget_api.errors import InvalidInput, NotFound
from gadget_api.users import Registration, User
from gadget_code.auth.passwords import Passwords
from gadget_code.settings import Settings
from gadget_code.store.database import MongoStore, open_store


async def add_user(settings: Settings, email: str, password: str, *, is_admin: bool) -> User:
    """Raises InvalidInput for an invalid address or password, Conflict when the address is taken."""
    try:
        new = Registration.model_validate({"email": email, "password": password})
    except ValidationError as exc:
        problem = exc.errors()[0]
        if "password" in problem["loc"]:
            raise InvalidInput("The password must have 8 to 1,024 characters.") from exc
        raise InvalidInput(f"The e-mail address {problem['msg'].removeprefix('Value error, ')}.") from exc
    hashed = await Passwords().hash(new.password.get_secret_value())
    async with open_store(settings, join=True) as store:
        name = new.email.partition("@")[0]
        return await store.users.create(new.email, hashed, display_name=name, is_admin=is_admin)


async def list_users(settings: Settings) -> list[User]:
    async with open_store(settings, join=True) as store:
        return await store.users.all({}, limit=100_000)


async def remove_user(settings: Settings, email: str) -> None:
    """Removes the account, and ends its sign-ins and drones. Its projects and sessions stay in the database; nobody can
    reach them."""
    async with open_store(settings, join=True) as store:
        user = await store.users.by_email(email)
        if user is None:
            raise NotFound("user")
        await close_account(store, user)
        await store.tokens.revoke(user=user.id)


async def close_account(store: MongoStore, user: User) -> None:
    """Removes the account and revokes its sign-ins. Its drone tokens stay valid until the caller revokes them. Raises
    Conflict for the last administrator."""
    await store.users.remove(user.id)
    # After the removal: a sign-in that runs at the same time then finds no account.
    await store.tokens.revoke_sign_ins(user.id)
