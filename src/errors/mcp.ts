import { failure } from './failure.ts'

/* Failures of tools, and of the MCP endpoint. */

export const ToolArgumentsInvalidError = failure({
  code: 'WASM_SERVE_TOOL_ARGUMENTS_INVALID',
  status: 400,
  message: 'The arguments do not match the tool %s: %s',
  cause:
    'The arguments of the [tool call](../write/tools-for-agents.md) do not match the input schema. The result has `isError`.',
  remedy: 'Correct the arguments that the message names.',
})

export const ToolResultInvalidError = failure({
  code: 'WASM_SERVE_TOOL_RESULT_INVALID',
  status: 502,
  message: 'The output does not match the output schema of the tool %s: %s',
  cause:
    'The output does not match the output schema of the [tool](../write/tools-for-agents.md). The result has `isError`.',
  remedy: 'Correct the guest or the schema.',
})

export const ToolSchemaInvalidError = failure({
  code: 'WASM_SERVE_TOOL_SCHEMA_INVALID',
  site: 'command',
  isMistake: true,
  message: 'The %s of the tool %s cannot be used: %s',
  cause:
    'A [tool](../write/tools-for-agents.md) schema is not JSON Schema 2020-12, is too large, or does not describe an object.',
  remedy: 'Correct the schema.',
})

export const ToolExportMissingError = failure({
  code: 'WASM_SERVE_TOOL_EXPORT_MISSING',
  site: 'command',
  isMistake: true,
  message: 'The plug-in %s was not made for hyper-mcp: it does not export %s',
  cause:
    'A plug-in with `contract: hyper-mcp` does not have the exports of that [interface](../write/tools-for-agents.md).',
  remedy: 'Remove `contract` if the plug-in has another interface.',
})

export const ToolConflictError = failure({
  code: 'WASM_SERVE_TOOL_CONFLICT',
  site: 'command',
  isMistake: true,
  message: 'Several routes are tools with the same name. Set tool.name, or tool.enabled to false:\n%s',
  cause: 'Several routes are [tools](../write/tools-for-agents.md) with the same name.',
  remedy: 'Set `tool.name` or `tool.enabled: false` on one of them.',
})

export const ScopeMissingError = failure({
  code: 'WASM_SERVE_TOOL_SCOPE_MISSING',
  status: 403,
  message: 'The tool %s needs the scope %s',
  cause: 'The token has no scope that grants the tool ([`mcp.access`](../write/tools-for-agents.md)).',
  remedy: 'Request a token with the scope that the message names.',
})

export const McpOriginRefusedError = failure({
  code: 'WASM_SERVE_MCP_ORIGIN_REFUSED',
  status: 403,
  message: 'The request is refused: %s',
  cause:
    'The request to the [MCP endpoint](../write/tools-for-agents.md) names another host or comes from another origin.',
  remedy: 'Use the address of the server, or add the host to `mcp.hosts` or the origin to `mcp.origins`.',
})

export const McpNotAcceptableError = failure({
  code: 'WASM_SERVE_MCP_NOT_ACCEPTABLE',
  status: 406,
  message: 'The client must accept application/json and text/event-stream',
  cause: 'The client does not accept both content types of the [MCP endpoint](../write/tools-for-agents.md).',
  remedy: 'Send `Accept: application/json, text/event-stream`.',
})

export const McpStreamsFullError = failure({
  code: 'WASM_SERVE_MCP_STREAMS_FULL',
  status: 503,
  message: 'No more than %d streams%s may wait for changed lists',
  cause:
    'The client, or all clients of its [kind](../write/tools-for-agents.md#who-may-use-what), have too many streams for changed lists.',
  remedy: 'Close unused streams.',
})

export const McpTasksFullError = failure({
  code: 'WASM_SERVE_MCP_TASKS_FULL',
  status: 503,
  message: 'A client may have at most %d tasks, and all clients %d',
  cause: 'The client, or all clients of its kind, have too many [tasks](../write/tools-for-agents.md#tasks).',
  remedy: 'Fetch finished results, cancel tasks, or lower `tool.task.ttlMs`.',
})

export const McpContentTypeError = failure({
  code: 'WASM_SERVE_MCP_CONTENT_TYPE_UNSUPPORTED',
  status: 415,
  message: 'The content type must be application/json, not %s',
  cause: 'The message to the [MCP endpoint](../write/tools-for-agents.md) is not declared as JSON.',
  remedy: 'Send `Content-Type: application/json`.',
})
