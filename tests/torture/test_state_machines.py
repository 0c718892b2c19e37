"""Random lives of sessions, found and shortened by Hypothesis, beside models of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test
from tests.torture.agent_machine import AgentMachine
from tests.torture.conftest import Budget
from tests.torture.session_machine import SessionMachine

MACHINES: list[type[RuleBasedStateMachine]] = [SessionMachine, AgentMachine]
_SETTINGS = settings(
    max_examples=10,
    stateful_step_count=40,
    deadline=None,
    database=None,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate, Phase.shrink],
)


@pytest.mark.share(2)
@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.__name__)
def test_a_life_of_a_session_goes_as_its_model(
    machine: type[RuleBasedStateMachine],
    budget: Budget,
    figures: Callable[[str, float], None],
) -> None:
    while budget.is_left():
        run_state_machine_as_test(machine, settings=_SETTINGS)
        figures("lives", _SETTINGS.max_examples)
