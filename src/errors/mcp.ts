import { failure } from './failure.ts'

/* Failures of tools, and of the MCP endpoint. */

export const ToolArgumentsInvalidError = failure({
  code: 'WASM_SERVE_TOOL_ARGUMENTS_INVALID',
  status: 400,
  message: 'The arguments do not fit the tool %s: %s',
  cause:
    'The arguments of a [tool call](../guide/mcp.md) do not fit the input schema. The answer is a result with `isError`, which a model can read.',
  remedy: 'Correct the arguments. The message names the first problems.',
})

export const ToolResultInvalidError = failure({
  code: 'WASM_SERVE_TOOL_RESULT_INVALID',
  status: 502,
  message: 'The output does not fit the output schema of the tool %s: %s',
  cause:
    'The output of the guest does not fit the output schema of its [tool](../guide/mcp.md). The answer is a result with `isError`.',
  remedy: 'Correct the guest, or the schema. The message names the first problems.',
})

export const ToolSchemaInvalidError = failure({
  code: 'WASM_SERVE_TOOL_SCHEMA_INVALID',
  site: 'command',
  isMistake: true,
  message: 'The %s of the tool %s cannot be used: %s',
  cause:
    'A schema of a [tool](../guide/mcp.md) is not a JSON Schema (2020-12), is too large, or is not one of an object.',
  remedy: 'Correct the schema. The message has the reason.',
})

export const ToolExportMissingError = failure({
  code: 'WASM_SERVE_TOOL_EXPORT_MISSING',
  site: 'command',
  isMistake: true,
  message: 'The plug-in %s was not made for hyper-mcp: it does not export %s',
  cause:
    'A plug-in with `contract: hyper-mcp` does not have the exports of its [interface](../guide/mcp.md).',
  remedy: 'Remove `contract` if the plug-in was made for something else.',
})

export const ToolConflictError = failure({
  code: 'WASM_SERVE_TOOL_CONFLICT',
  site: 'command',
  isMistake: true,
  message: 'Several routes are tools of the same name. Set tool.name, or tool.enabled to false:\n%s',
  cause: 'Several routes are [tools](../guide/mcp.md) of the same name.',
  remedy: 'Set `tool.name` of one of them, or `tool.enabled: false`.',
})

export const ScopeMissingError = failure({
  code: 'WASM_SERVE_TOOL_SCOPE_MISSING',
  status: 403,
  message: 'The tool %s needs the scope %s',
  cause: 'The token of the client has no scope that [`mcp.access`](../guide/mcp.md) grants the tool to.',
  remedy: 'Ask the issuer for a token with the scope of the message.',
})

export const McpOriginRefusedError = failure({
  code: 'WASM_SERVE_MCP_ORIGIN_REFUSED',
  status: 403,
  message: 'The request is refused: %s',
  cause:
    'The request to the [MCP endpoint](../guide/mcp.md) names another host, or comes from a web page of another origin.',
  remedy:
    'Use the address of the server, or add the host name to `mcp.hosts`, or the origin of the page to `mcp.origins`.',
})

export const McpNotAcceptableError = failure({
  code: 'WASM_SERVE_MCP_NOT_ACCEPTABLE',
  status: 406,
  message: 'The client must accept application/json and text/event-stream',
  cause:
    'The client of the [MCP endpoint](../guide/mcp.md) does not accept both content types of its answers.',
  remedy: 'Send `Accept: application/json, text/event-stream`.',
})

export const McpStreamsFullError = failure({
  code: 'WASM_SERVE_MCP_STREAMS_FULL',
  status: 503,
  message: 'No more than %d streams%s may wait for changed lists',
  cause:
    'Too many clients of a [kind](../guide/mcp.md#who-may-use-what), or too many streams of one client, wait for changed lists.',
  remedy: 'Close streams that are not needed. Other requests are not affected.',
})

export const McpTasksFullError = failure({
  code: 'WASM_SERVE_MCP_TASKS_FULL',
  status: 503,
  message: 'There may be no more than %d tasks of a client, and %d of all clients',
  cause:
    'The tool needs a [task](../guide/mcp.md#tasks), but the client, or its kind of clients, has too many. A task counts until it expires, or until it has ended and the client has seen the end.',
  remedy: 'Fetch the results of tasks that have ended, cancel others, or set a shorter `tool.task.ttlMs`.',
})

export const McpContentTypeError = failure({
  code: 'WASM_SERVE_MCP_CONTENT_TYPE_UNSUPPORTED',
  status: 415,
  message: 'The content type must be application/json, not %s',
  cause: 'The message to the [MCP endpoint](../guide/mcp.md) is not declared as JSON.',
  remedy: 'Send `Content-Type: application/json`.',
})
