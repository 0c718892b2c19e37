"""Which variables are kept from the commands that a model runs."""

from __future__ import annotations

import pytest

from sessiontree.agents.providers import without_keys


@pytest.mark.parametrize(
    "name",
    [
        *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "OPENAI_ADMIN_KEY"),
        *(
            "OLLAMA_API_KEY",
            "VLLM_API_KEY",
            "AWS_BEARER_TOKEN_BEDROCK",
            "VERCEL_AI_GATEWAY_API_KEY",
        ),
        *("MY_GATEWAY_API_KEY", "OTHER_GATEWAY_API_KEY", "OTHER_GATEWAY_AUTH_TOKEN"),
    ],
)
def test_a_key_that_models_are_reached_with_is_kept_from_commands(name: str) -> None:
    environ = {"OTHER_GATEWAY_BASE_URL": "http://127.0.0.1:9/v1", name: "secret"}
    left = without_keys({"PATH": "/bin", **environ}, ["my-gateway"])
    assert left == {"PATH": "/bin", "OTHER_GATEWAY_BASE_URL": "http://127.0.0.1:9/v1"}


@pytest.mark.parametrize("name", ["STRIPE_API_KEY", "GITHUB_TOKEN", "HF_TOKEN", "MY_TOKEN"])
def test_a_key_of_the_projects_own_work_is_not(name: str) -> None:
    environ = {"MY_BASE_URL": "http://127.0.0.1:9", name: "x"}
    assert without_keys(environ) == environ
