# The client of PyPI's `mcp`, in place of an agent: argv has the URL of the endpoint, and the command for stdio.
import asyncio
import json
import sys

from mcp import Client, StdioServerParameters, stdio_client

url, *command = sys.argv[1:]


async def use(client):
    tools = (await client.list_tools()).tools
    greeting = await client.call_tool("hello", {"input": "Ada"})
    wrong = await client.call_tool("hello", {})
    return {
        "version": client.protocol_version,
        "tools": [tool.name for tool in tools],
        "text": greeting.content[0].text,
        "errors": [bool(greeting.is_error), bool(wrong.is_error)],
    }


async def main():
    seen = []
    for mode in ["auto", "legacy"]:
        async with Client(url, mode=mode) as client:
            seen.append(await use(client))
    parameters = StdioServerParameters(command=command[0], args=command[1:])
    async with Client(stdio_client(parameters)) as client:
        seen.append(await use(client))
    print(json.dumps(seen))


asyncio.run(main())
