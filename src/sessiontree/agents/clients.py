"""Make the client for a model's reference, and the settings of its requests.

Owns the choice of pydantic-ai's model class and the settings of a request. Knows nothing of
conversations. Loads pydantic-ai and the library of the one provider that is used.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast
from urllib.parse import urlsplit

from pydantic_ai.models import Model as ClientModel
from pydantic_ai.models import infer_model
from pydantic_ai.settings import ModelSettings, ThinkingLevel
from pydantic_ai.tools import ToolDefinition

from sessiontree.agents.failures import ModelCallError
from sessiontree.agents.providers import find_setup, how_to_set_up, is_set_up, own_variable
from sessiontree.agents.tools.base import ToolSpec
from sessiontree.runtime.models import Model

MakeClient = Callable[[Model], ClientModel]
"""Makes the client for a model; a program may bring its own."""

_OWN_LIBRARIES = {"groq": "groq", "mistral": "mistralai", "xai": "xai_sdk"}
_APIS = {
    "AnthropicModel": "anthropic-messages",
    "OpenAIResponsesModel": "openai-responses",
    "OpenAIChatModel": "openai-completions",
    "GoogleModel": "google-generative-ai",
    "BedrockConverseModel": "bedrock-converse-stream",
    "MistralModel": "mistral-conversations",
}


def make_client(model: Model, environ: Mapping[str, str]) -> ClientModel:
    """Make the client that asks this model. Raises ModelCallError if its provider is not set up."""
    provider = model.provider
    if not is_set_up(provider, environ):
        raise ModelCallError(how_to_set_up(provider))
    setup = find_setup(provider)
    if setup is None:
        return _compatible(
            model,
            environ[own_variable(provider, "_BASE_URL")],
            environ.get(own_variable(provider, "_API_KEY")),
        )
    if setup.base_url is not None and not _is_installed(_OWN_LIBRARIES[setup.name]):
        return _compatible(model, setup.base_url, environ.get(setup.variables[0]))
    if provider == "openai" and _is_elsewhere(environ.get("OPENAI_BASE_URL")):
        # Servers that stand in for OpenAI know its chat language; the newer one few of them do.
        provider = "openai-chat"
    try:
        return infer_model(f"{provider}:{model.id}")
    except ImportError as error:
        raise ModelCallError(str(error)) from error


def api_name(client: ClientModel) -> str | None:
    """The language spoken with the provider, as pi names it in ``api``."""
    names = (_APIS.get(kind.__name__) for kind in type(client).__mro__)
    return next((name for name in names if name is not None), None)


def tool_definitions(specs: Iterable[ToolSpec], names: Iterable[str]) -> list[ToolDefinition]:
    """The definitions of these tools for a model."""
    wanted = set(names)
    return [
        ToolDefinition(
            name=spec.name,
            parameters_json_schema=spec.schema(),
            description=spec.description,
            # Optional arguments are truly optional; strict schemas would make all required.
            strict=False,
        )
        for spec in specs
        if spec.name in wanted
    ]


def request_settings(
    client: ClientModel,
    model: Model,
    *,
    max_tokens: int,
    thinking_level: str,
    session_id: str | None,
) -> ModelSettings:
    """The settings of one call."""
    settings: dict[str, Any] = {"max_tokens": max_tokens, "cache": True}
    # Retrying is the agent's: one place that counts, waits, and can be aborted.
    if "max_retries" not in client.unsupported_settings:
        settings["max_retries"] = 0
    if thinking_level != "off":
        settings["thinking"] = cast("ThinkingLevel", thinking_level)
    elif model.max_thinking != "off" and not _is_compatible(client):
        settings["thinking"] = False
    if session_id is not None and model.provider.startswith("openai"):
        settings["openai_prompt_cache_key"] = session_id
    return cast("ModelSettings", settings)


def _compatible(model: Model, base_url: str, api_key: str | None) -> ClientModel:
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.profiles.openai import OpenAIModelProfile
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    # pydantic-ai knows nothing of this service's models; our table does. For the rest: the words
    # that such servers have always known, not OpenAI's latest.
    profile = OpenAIModelProfile(
        supports_thinking=model.max_thinking != "off",
        openai_chat_supports_max_completion_tokens=False,
    )
    provider = OpenAICompatibleProvider(
        model.provider, base_url=base_url, api_key=api_key, profile=profile
    )
    return OpenAIChatModel(model.id, provider=provider)


def _is_compatible(client: ClientModel) -> bool:
    """Whether this is a client of `_compatible`, whose server has no common word for "off"."""
    return type(client.provider).__name__ == "OpenAICompatibleProvider"


def _is_installed(library: str) -> bool:
    return importlib.util.find_spec(library) is not None


def _is_elsewhere(base_url: str | None) -> bool:
    return bool(base_url) and urlsplit(base_url or "").hostname != "api.openai.com"
