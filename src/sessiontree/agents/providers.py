"""Find out from the environment which model providers are set up.

Owns the names of the variables and the addresses of services that speak OpenAI's language. Loads
no provider's library and opens no connection; never holds or shows the value of a key.

A provider that is not in the table is one that speaks OpenAI's chat language at an address of the
user's: ``my-gateway/model`` needs ``MY_GATEWAY_BASE_URL``, and ``MY_GATEWAY_API_KEY`` if it asks
for a key.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProviderSetup:
    """The setup of one provider."""

    name: str
    variables: tuple[str, ...]
    """Environment variables, of which any one is enough."""
    base_url: str | None = None
    """Where it speaks OpenAI's chat language, for those whose own library is not needed then."""


_SETUPS = (
    ProviderSetup("anthropic", ("ANTHROPIC_API_KEY",)),
    ProviderSetup("openai", ("OPENAI_API_KEY", "OPENAI_BASE_URL")),
    ProviderSetup("google", ("GOOGLE_API_KEY", "GEMINI_API_KEY")),
    ProviderSetup("openrouter", ("OPENROUTER_API_KEY",)),
    ProviderSetup("xai", ("XAI_API_KEY",), "https://api.x.ai/v1"),
    ProviderSetup("deepseek", ("DEEPSEEK_API_KEY",)),
    ProviderSetup("mistral", ("MISTRAL_API_KEY",), "https://api.mistral.ai/v1"),
    ProviderSetup("groq", ("GROQ_API_KEY",), "https://api.groq.com/openai/v1"),
    ProviderSetup("zai", ("ZAI_API_KEY",)),
    ProviderSetup("moonshotai", ("MOONSHOTAI_API_KEY",)),
    ProviderSetup("cerebras", ("CEREBRAS_API_KEY",)),
    ProviderSetup("together", ("TOGETHER_API_KEY",)),
    ProviderSetup("fireworks", ("FIREWORKS_API_KEY",)),
    ProviderSetup("alibaba", ("ALIBABA_API_KEY", "DASHSCOPE_API_KEY")),
    ProviderSetup("nebius", ("NEBIUS_API_KEY",)),
    ProviderSetup("sambanova", ("SAMBANOVA_API_KEY",)),
    ProviderSetup("vercel", ("VERCEL_AI_GATEWAY_API_KEY", "VERCEL_OIDC_TOKEN")),
    ProviderSetup("azure", ("AZURE_OPENAI_API_KEY",)),
    ProviderSetup("bedrock", ("AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID", "AWS_PROFILE")),
    ProviderSetup("google-cloud", ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT")),
    ProviderSetup("cohere", ("CO_API_KEY",)),
    ProviderSetup("huggingface", ("HF_TOKEN",)),
    ProviderSetup("ollama", ("OLLAMA_BASE_URL",)),
    ProviderSetup("vllm", ("VLLM_BASE_URL",)),
)
# Keys that a provider's library reads besides the variables that say it is set up.
_OTHER_KEYS = frozenset(
    (
        *("ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "OLLAMA_API_KEY", "VLLM_API_KEY"),
        *("COHERE_API_KEY", "HUGGINGFACE_API_KEY", "VERCEL_API_KEY", "OPENAI_ADMIN_KEY"),
    )
)
_BY_NAME = {setup.name: setup for setup in _SETUPS}
_FLAVOURS = re.compile(r"-(?:chat|responses)$")


def find_setup(provider: str) -> ProviderSetup | None:
    """The setup of a known provider; ``openai-chat`` and ``openai-responses`` are ``openai``."""
    return _BY_NAME.get(provider) or _BY_NAME.get(_FLAVOURS.sub("", provider))


def own_variable(provider: str, suffix: str) -> str:
    """The variable of a provider of the user's own: ``my-gateway`` → ``MY_GATEWAY_BASE_URL``."""
    return re.sub(r"[^A-Z0-9]+", "_", provider.upper()).strip("_") + suffix


def is_set_up(provider: str, environ: Mapping[str, str]) -> bool:
    """Whether the environment has what the provider needs."""
    return any(environ.get(name) for name in variables_of(provider))


def variables_of(provider: str) -> tuple[str, ...]:
    """The variables of which the provider needs one."""
    setup = find_setup(provider)
    return setup.variables if setup else (own_variable(provider, "_BASE_URL"),)


def how_to_set_up(provider: str) -> str:
    """One sentence for a person."""
    return f'"{provider}" is not set up: set {" or ".join(variables_of(provider))}'


def without_keys(environ: Mapping[str, str], providers: Iterable[str] = ()) -> dict[str, str]:
    """The environment without the keys that models are reached with.

    For the commands that a model runs: they have no need of them, and could send them anywhere.
    Every gateway counts that has an address here (``X_BASE_URL``), and those in ``providers``.
    """
    hidden = {
        name
        for setup in _SETUPS
        for name in setup.variables
        if name.endswith(("_API_KEY", "_TOKEN", "_BEDROCK"))
    }
    hidden |= _OTHER_KEYS
    hidden.update(own_variable(provider, "_API_KEY") for provider in providers)
    for name in environ:
        gateway, is_address, _ = name.partition("_BASE_URL")
        if is_address and gateway:
            hidden.update(gateway + suffix for suffix in ("_API_KEY", "_AUTH_TOKEN"))
    # Not a key to models alone: commands of many projects need it for their own work.
    hidden -= {"HF_TOKEN", "VERCEL_OIDC_TOKEN"}
    return {name: value for name, value in environ.items() if name not in hidden}
