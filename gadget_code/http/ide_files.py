"""Serves the browser IDE's files, which `ide/build.py` writes to `static/`.

File names in `assets/` contain a content hash, so browsers cache them for ever. `index.html` is revalidated each time,
and is the response for every page of the IDE.
"""

from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from gadget_api.errors import ErrorCode, Unavailable

STATIC = Path(__file__).parents[1] / "static"
_KEPT_S = 365 * 24 * 3600
_NOT_PAGES = frozenset({"api", "assets", "health", "metrics", "openapi.json", "socket.io"})
"""Paths below these are never pages, and neither are names with a dot: a missing one is a 404."""


class IdeFiles(StaticFiles):
    def __init__(self, directory: Path = STATIC) -> None:
        super().__init__(directory=directory, html=True, check_dir=False)
        self._directory = directory

    async def get_response(self, path: str, scope: Scope) -> Response:
        if path.startswith(".") and path != ".":  # "." is the root; other names with a dot are the build's own files
            raise HTTPException(404)
        try:
            answer = await super().get_response(path, scope)
        except HTTPException as exc:
            if exc.status_code != 404 or not _is_page(scope["path"]):
                raise
            if not (self._directory / "index.html").is_file():
                raise Unavailable(
                    ErrorCode.INTERNAL, "The browser IDE is not built in this install; build it: python ide/build.py"
                ) from None
            answer = await super().get_response("index.html", scope)
        if answer.status_code in (200, 304):
            forever = path.startswith("assets/")
            answer.headers["Cache-Control"] = f"public, max-age={_KEPT_S}, immutable" if forever else "no-cache"
        return answer


def _is_page(path: str) -> bool:
    """Takes the requested path, before `..` and links in it are resolved."""
    names = path.strip("/").split("/")
    return names[0] not in _NOT_PAGES and not any("." in name for name in names)
