"""Agents that come with Sessiontree: a real one on pydantic-ai, and an offline one.

`create_agent` picks. Importing this package loads neither; the offline agent needs no package
beyond the core install, the real one the extra ``agent``.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from sessiontree.agents.toolbox_agent import ToolboxAgent
    from sessiontree.agents.tools.base import Confirm
    from sessiontree.runtime.models import Model, ModelRegistry
    from sessiontree.session.manager import SessionManager

__all__ = ["AgentChoice", "MakeAgent", "create_agent", "create_session_agent"]

OFFLINE = "offline"
NOT_INSTALLED = 'pydantic-ai is not installed: pip install "sessiontree[agent]"'


@dataclass(frozen=True, slots=True)
class AgentChoice:
    """The agent that was picked, and why in one sentence for the user."""

    agent: ToolboxAgent
    model: Model
    reason: str

    @property
    def is_offline(self) -> bool:
        return self.model.provider == OFFLINE


MakeAgent: TypeAlias = "Callable[[str, str], AgentChoice]"
"""Makes the agent for a model's reference and a project folder, as `create_agent` does."""


def create_session_agent(
    manager: SessionManager,
    model: str | None,
    *,
    cwd: str | None = None,
    confirm: Confirm | None = None,
    default: str | None = None,
    attempts: int | None = None,
) -> AgentChoice:
    """The agent for a session: for ``model``, else the session's own, else ``default``.

    Without any of them it is for whichever model is set up. Its tools work in the session's
    project, or in ``cwd`` if that is given. Raises as `create_agent` does.
    """
    from sessiontree.runtime.models import ModelRegistry

    models = ModelRegistry.load(manager.profile.agent_dir)
    own = manager.build_session_context().models.get("default")
    work_dir = cwd or manager.cwd
    make = partial(create_agent, confirm=confirm, registry=models, attempts=attempts)
    choice = make(model or own or default, work_dir)
    if choice.is_offline and model is None and own is not None:
        return make(default, work_dir)
    return choice


def create_agent(
    model: str | None,
    cwd: str | os.PathLike[str],
    *,
    confirm: Confirm | None = None,
    registry: ModelRegistry | None = None,
    environ: Mapping[str, str] | None = None,
    hide_keys: bool = True,
    offline_delay_s: float = 0.0,
    attempts: int | None = None,
) -> AgentChoice:
    """The agent for a project: the real one if the environment has what its model needs.

    ``model`` is a reference (``provider/id``) or what `ModelRegistry.find` understands; None for
    the registry's default or, if its provider is not set up, the first model whose provider is.
    ``registry`` is by default the packaged table with the user's ``models.toml`` over it.
    ``"offline"`` asks for the offline agent. ``confirm`` is asked before a tool writes or runs;
    without it all of that is refused. ``hide_keys`` keeps the keys of providers from commands.
    ``attempts`` says how often a call that fails in passing is made (four times).

    Never fails for lack of a provider: then it is the offline agent, and ``reason`` says why.
    Raises AmbiguousModelError, and ModelNotFoundError for a name that is not a reference.
    """
    from sessiontree.agents.instructions import system_prompt
    from sessiontree.agents.providers import without_keys
    from sessiontree.agents.tools.toolbox import Toolbox, project_tools
    from sessiontree.agents.workplace import Workplace
    from sessiontree.profiles import get_profile
    from sessiontree.runtime.models import ModelRegistry

    variables = os.environ if environ is None else environ
    models = registry if registry is not None else ModelRegistry.load(get_profile().agent_dir)
    chosen, reason = _choose(model, models, variables)
    own = {one.provider for one in (*models, *([chosen] if chosen else []))}
    hidden = without_keys(variables, own) if hide_keys else None

    def enter(folder: str) -> Workplace:
        told = system_prompt(folder) if chosen is not None else None
        return Workplace(project_tools(folder, env=hidden), told)

    here = os.path.abspath(cwd)
    place = enter(here)
    toolbox = Toolbox(place.tools, confirm=confirm)
    if chosen is None:
        from sessiontree.agents.offline import OFFLINE_MODEL, OfflineAgent

        offline = OfflineAgent(toolbox, delay_s=offline_delay_s, cwd=here, enter=enter)
        return AgentChoice(offline, OFFLINE_MODEL, reason)

    from sessiontree.agents.pydantic_ai import PydanticAIAgent
    from sessiontree.agents.retries import RetryPolicy

    agent = PydanticAIAgent(
        toolbox,
        model=chosen,
        system_prompt=place.system_prompt,
        retry=RetryPolicy() if attempts is None else RetryPolicy(attempts),
        environ=variables,
        cwd=here,
        enter=enter,
    )
    return AgentChoice(agent, chosen, reason)


def _choose(
    wanted: str | None, models: ModelRegistry, environ: Mapping[str, str]
) -> tuple[Model | None, str]:
    """The model of the real agent, or None for the offline one; and why."""
    from sessiontree.agents.providers import how_to_set_up, is_set_up

    if wanted is not None and wanted.partition("/")[0] == OFFLINE:
        return None, "The offline agent was asked for"
    if importlib.util.find_spec("pydantic_ai") is None:
        return None, NOT_INSTALLED
    if wanted is not None:
        model = _find(wanted, models)
        if not is_set_up(model.provider, environ):
            return None, how_to_set_up(model.provider)
        return model, f"{model.ref} was asked for"
    candidates = ([models.default] if models.default is not None else []) + list(models)
    for model in candidates:
        if is_set_up(model.provider, environ):
            return model, f"{model.provider} is set up"
    return None, "No API key found: set ANTHROPIC_API_KEY, OPENAI_API_KEY or another provider's key"


def _find(wanted: str, models: ModelRegistry) -> Model:
    """The model of the registry; a reference that it does not know is taken at its word."""
    from sessiontree.runtime.models import Model, ModelNotFoundError

    try:
        return models.find(wanted)
    except ModelNotFoundError:
        provider, slash, model_id = wanted.partition("/")
        if not (slash and provider and model_id):
            raise
        return Model(provider, model_id)
