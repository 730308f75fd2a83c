"""An agent of LangChain whose model is chosen for each call; scripted models answer.

pip install "pointsman[langchain]"
python examples/langchain_routing.py
"""

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage

from pointsman import Pointsman
from pointsman.integrations.langchain import routing_middleware


def model(name: str) -> GenericFakeChatModel:
    """A model that answers with its name; a real one goes here."""
    return GenericFakeChatModel(messages=iter([AIMessage(f"This is {name}.")] * 9))


routing = routing_middleware({"simple": model("small"), "reasoning": model("large")}, Pointsman, timeout=60)
agent = create_agent(model("medium"), [], middleware=[routing])
for text in ("Hello!", "Prove step by step that the square root of two is irrational."):
    answer = agent.invoke({"messages": [HumanMessage(text)]})
    print(f"{text}\n  {answer['messages'][-1].content}")
