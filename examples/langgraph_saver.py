"""LangGraph on Sessiontree: answer, be killed, resume, go back and branch, see the tree.

    pip install "sessiontree[langgraph]" langgraph
    python langgraph_saver.py

The node is scripted, so no key is needed. The first turn runs in a process of its own, which is
killed as soon as the answer is saved.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, MessagesState, StateGraph

from sessiontree.adapters.langgraph import SessiontreeSaver

CHAT: RunnableConfig = {"configurable": {"thread_id": "langgraph-chat"}}


def answer(state: MessagesState) -> dict[str, Any]:
    """Says how many messages it has seen."""
    return {"messages": [AIMessage(f"Message {len(state['messages']) + 1}")]}


def make_graph(saver: SessiontreeSaver) -> Any:
    """A graph that answers."""
    builder = StateGraph(MessagesState)
    builder.add_node("answer", answer)
    builder.add_edge(START, "answer")
    builder.add_edge("answer", END)
    return builder.compile(checkpointer=saver)


def ask(question: str, config: RunnableConfig = CHAT) -> None:
    """A turn of a new graph, which finds the thread where it stands."""
    with SessiontreeSaver() as saver:
        state = make_graph(saver).invoke({"messages": [("user", question)]}, config)
        print(f"{question} -> {state['messages'][-1].content}", flush=True)
        if sys.argv[1:] == ["first"]:
            os.kill(os.getpid(), signal.SIGKILL)


def after_first_answer() -> RunnableConfig:
    """The checkpoint after the first turn; what came later stays on a branch of its own."""
    with SessiontreeSaver() as saver:
        history = [*make_graph(saver).get_state_history(CHAT)]
    config: RunnableConfig = [each for each in history if not each.next][-1].config
    return config


if __name__ == "__main__":
    if sys.argv[1:] == ["first"]:
        ask("Where did we leave off?")
    killed = subprocess.run([sys.executable, __file__, "first"], check=False)
    print(f"The first process ended with {killed.returncode}.", flush=True)
    ask("And now?")
    ask("Or rather this?", after_first_answer())
    subprocess.run([sys.executable, "-m", "sessiontree", "tree", "langgraph-chat"], check=True)
