"""The two halves of a browser's token: a cookie and a key that the page stores (`store/tokens.py` explains why)."""

COOKIE = "gadget_session"
PAGE_HEADER = "X-Gadget-Page"


def page_token(cookie: str | None, key: str | None) -> str | None:
    """Joins the halves. None when one is missing."""
    return f"{cookie}.{key}" if cookie and key else None
