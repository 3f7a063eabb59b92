# An agent of PyPI's `pydantic-ai-slim` with a script in place of its model. argv has the URL of the endpoint, and the name of a tool
# that appears later. It prints a line when it has used the tools, and another one when it has used the later one, too.
import asyncio
import itertools
import json
import sys

from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel

url, later = sys.argv[1:]
numbers = itertools.count()


def script(messages, info):
    """Calls each tool that it sees with the text of the prompt, then repeats what they have returned."""
    returned = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
    if returned:
        return ModelResponse(parts=[TextPart(json.dumps({part.tool_name: part.model_response_str() for part in returned}))])
    prompt = messages[0].parts[0].content
    names = [tool.name for tool in info.function_tools]
    return ModelResponse(parts=[ToolCallPart(name, {"input": prompt}) for name in names])


agent = Agent(FunctionModel(script), toolsets=[MCPToolset(url, cache_tools=False)])


async def answer(prompt):
    return json.loads((await agent.run(prompt)).output)


async def call_until(done):
    """Counts the runs. Each prompt has a number of its own, which each answer must contain."""
    runs = 0
    while not done.is_set():
        prompt = f"Ada {next(numbers)}"
        answers = await answer(prompt)
        for name in ["rust", "assemblyscript"]:
            assert prompt in answers[name], answers
        if later in answers:
            assert prompt in answers[later], answers
            done.set()
        runs += 1
    return runs


async def main():
    async with agent:
        print(json.dumps(await answer("Ada Lovelace")), flush=True)
        done = asyncio.Event()
        runs = await asyncio.gather(*(call_until(done) for _ in range(4)))
        print(json.dumps({"runs": min(runs)}), flush=True)


asyncio.run(main())
