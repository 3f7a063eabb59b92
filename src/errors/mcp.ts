import { failure } from './failure.ts'

/** The arguments of a tool call do not fit the tool's input schema. */
export const ToolArgumentsInvalidError = failure<[tool: string, problem: string]>(
  'WASM_SERVE_TOOL_ARGUMENTS_INVALID',
  'The arguments do not fit the tool %s: %s',
  400,
)

/** The guest's output does not fit the output schema of its tool. */
export const ToolResultInvalidError = failure<[tool: string, problem: string]>(
  'WASM_SERVE_TOOL_RESULT_INVALID',
  'The output does not fit the output schema of the tool %s: %s',
  502,
)

/** A schema of a tool cannot be used. */
export const ToolSchemaInvalidError = failure<[schema: string, tool: string, problem: string]>(
  'WASM_SERVE_TOOL_SCHEMA_INVALID',
  'The %s of the tool %s cannot be used: %s',
  500,
)

/** A plug-in has not the exports of its contract. */
export const ToolExportMissingError = failure<[plugin: string, exports: string]>(
  'WASM_SERVE_TOOL_EXPORT_MISSING',
  'The plug-in %s was not made for hyper-mcp: it does not export %s',
  500,
)

/** Two routes are tools of the same name. */
export const ToolConflictError = failure<[conflicts: string]>(
  'WASM_SERVE_TOOL_CONFLICT',
  'Several routes are tools of the same name. Set tool.name, or tool.enabled to false:\n%s',
  500,
)

/** The token of a client does not have the scope of a tool. */
export const ScopeMissingError = failure<[tool: string, scope: string]>(
  'WASM_SERVE_TOOL_SCOPE_MISSING',
  'The tool %s needs the scope %s',
  403,
)

/** A request to the MCP endpoint names an unknown host, or comes from a foreign web page. */
export const McpOriginRefusedError = failure<[problem: string]>(
  'WASM_SERVE_MCP_ORIGIN_REFUSED',
  'The request is refused: %s',
  403,
)

/** A client of the MCP endpoint does not accept its content types. */
export const McpNotAcceptableError = failure<[]>(
  'WASM_SERVE_MCP_NOT_ACCEPTABLE',
  'The client must accept application/json and text/event-stream',
  406,
)

/** Too many clients wait for changed lists. */
export const McpStreamsFullError = failure<[max: number, whose: string]>(
  'WASM_SERVE_MCP_STREAMS_FULL',
  'No more than %s streams%s may wait for changed lists',
  503,
)

/** A message to the MCP endpoint is not JSON by its content type. */
export const McpContentTypeError = failure<[type: string]>(
  'WASM_SERVE_MCP_CONTENT_TYPE_UNSUPPORTED',
  'The content type must be application/json, not %s',
  415,
)
