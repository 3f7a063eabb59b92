import { Type } from 'typebox'
import { jsonObject, only } from './option.ts'

/** How a route is listed as a tool of the MCP endpoint. */
export const toolSettings = only({
  enabled: Type.Optional(
    Type.Boolean({
      description:
        'Serve the route as a tool. Default: true for `raw` and `hyper-mcp`, false for `http`. Other contracts cannot.',
    }),
  ),
  name: Type.Optional(
    Type.String({
      pattern: '^[A-Za-z0-9_.-]{1,128}$',
      hint: 'must be 1 to 128 letters, digits, _, - or .',
      description: "Tool name. Default: the route's URL, with _ for slashes.",
    }),
  ),
  prefix: Type.Optional(
    Type.String({
      pattern: '^[A-Za-z0-9_.-]{1,64}$',
      hint: 'must be 1 to 64 letters, digits, _, - or .',
      description: 'Prefix of tool and prompt names, such as `docs-`. (hyper-mcp)',
    }),
  ),
  title: Type.Optional(Type.String({ minLength: 1, description: 'Title for people.' })),
  description: Type.Optional(
    Type.String({ minLength: 1, description: "Description for models. Default: the route's." }),
  ),
  inputSchema: Type.Optional(
    jsonObject('JSON Schema of the arguments. Default: from the XTP schema, or one string.'),
  ),
  input: Type.Optional(
    Type.Enum(['json', 'text'], {
      description:
        'Input of the guest: the arguments as JSON, or the bytes of the only argument. Default: `text` if the only parameter is a string.',
    }),
  ),
  outputSchema: Type.Optional(
    jsonObject('JSON Schema of the result. Default: from the XTP schema, or none.'),
  ),
  task: Type.Optional(
    Type.Object(
      {
        enabled: Type.Optional(Type.Boolean({ description: 'Run calls as tasks. Default: true.' })),
        afterMs: Type.Optional(
          Type.Integer({
            unit: 'ms',
            minimum: 0,
            maximum: 3_600_000,
            description: 'Time after which a call becomes a task, in ms. Default: 0.',
          }),
        ),
        required: Type.Optional(
          Type.Boolean({ description: 'Reject clients that do not support tasks. Default: false.' }),
        ),
        ttlMs: Type.Optional(
          Type.Integer({
            unit: 'ms',
            minimum: 1_000,
            maximum: 604_800_000,
            description: 'Lifetime of a task and its result, in ms. Default: 3600000.',
          }),
        ),
      },
      {
        additionalProperties: false,
        description:
          'Run calls as tasks, whose results clients fetch later, for clients that support tasks. Default: no tasks.',
      },
    ),
  ),
  annotations: Type.Optional(
    Type.Object(
      {
        title: Type.Optional(Type.String({ description: 'Title for clients of older revisions.' })),
        readOnlyHint: Type.Optional(Type.Boolean({ description: 'The tool changes nothing.' })),
        destructiveHint: Type.Optional(Type.Boolean({ description: 'The tool may delete or overwrite.' })),
        idempotentHint: Type.Optional(
          Type.Boolean({ description: 'A repeated call has no further effect.' }),
        ),
        openWorldHint: Type.Optional(Type.Boolean({ description: 'The tool reaches other systems.' })),
      },
      { additionalProperties: false, description: 'Hints about the effects of the tool.' },
    ),
  ),
})
