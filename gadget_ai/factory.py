"""Creates the client for the provider of a work order."""

from gadget_ai.client import CallOptions, ChatClient, Timeouts
from gadget_ai.errors import LLMError
from gadget_ai.images import LoadImage, Vision
from gadget_ai.windows import context_window
from gadget_api.errors import ErrorCode
from gadget_api.providers import ApiType
from gadget_api.work_order import OrderProvider


def load_sdk(sdk: ApiType) -> None:
    """Imports the SDK of an API, before the first `create_client`. The first call blocks for 0.3 to 0.7 s: run it in a
    thread. The import is late because an idle drone needs no SDK."""
    match sdk:
        case ApiType.OPENAI:
            from gadget_ai.openai import tls_context

            tls_context()
        case ApiType.OLLAMA:
            from gadget_ai.ollama import tls_context

            tls_context()


def create_client(
    provider: OrderProvider,
    timeouts: Timeouts = Timeouts(),  # noqa: B008 (frozen)
    *,
    load_image: LoadImage | None = None,
) -> ChatClient:
    """Creates a client for the provider's model, without a connection. The caller must call `close()`.

    `load_image` returns the bytes of the images in messages; it is used only for models that support images. Raises
    `LLMError` for an invalid key or URL.
    """
    key = provider.api_key or ""
    # Checked here because the error of the HTTP library would quote the key.
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise LLMError(ErrorCode.MODEL_AUTH, "The API key has invalid characters, such as a line end; enter it again.")
    options = CallOptions(
        temperature=provider.params.temperature,
        top_p=provider.params.top_p,
        top_k=provider.params.top_k,
        effort=provider.params.effort,
        context_window=context_window(provider),
        timeouts=timeouts,
    )
    vision = Vision(provider.sees_images, load_image)
    match provider.sdk:
        case ApiType.OPENAI:
            from gadget_ai.openai import OpenAIClient

            return OpenAIClient(provider.base_url, provider.model_id, provider.api_key, options, vision)
        case ApiType.OLLAMA:
            from gadget_ai.ollama import OllamaClient

            return OllamaClient(provider.base_url, provider.model_id, provider.api_key, options, vision)
