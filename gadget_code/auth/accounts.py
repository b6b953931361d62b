"""`gadget-code user`: accounts, straight in the store, for whoever runs the install."""

from pydantic import ValidationError

from gadget_api.errors import InvalidInput, NotFound
from gadget_api.users import Registration, User
from gadget_code.auth.passwords import Passwords
from gadget_code.settings import Settings
from gadget_code.store.database import MongoStore, open_store


async def add_user(settings: Settings, email: str, password: str, *, is_admin: bool) -> User:
    """Raises InvalidInput for an address or password that will not do, Conflict for one that is taken."""
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
    """Removes the account and ends its sign-ins and drones; what it made stays, unreachable."""
    async with open_store(settings, join=True) as store:
        user = await store.users.by_email(email)
        if user is None:
            raise NotFound("user")
        await close_account(store, user)
        await store.tokens.revoke(user=user.id)


async def close_account(store: MongoStore, user: User) -> None:
    """Removes it: nobody signs in to it from here on, and whoever has is cut off; its drones are not yet. Raises
    Conflict for the last administrator."""
    await store.users.remove(user.id)
    # Second: one that was signing in finds the account gone.
    await store.tokens.revoke_sign_ins(user.id)
