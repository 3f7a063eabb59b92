import { Type } from 'typebox'
import { jsonObject, only } from './option.ts'

/** How a route is listed as a tool of the MCP endpoint. */
export const toolSettings = only({
  enabled: Type.Optional(
    Type.Boolean({
      description:
        'Serve the route as a tool. Default: true with the contracts `raw` and `hyper-mcp`, false with `http`; others cannot be one.',
    }),
  ),
  name: Type.Optional(
    Type.String({
      pattern: '^[A-Za-z0-9_.-]{1,128}$',
      hint: 'must be 1 to 128 letters, digits, _, - or .',
      description: "Name of the tool. Default: the route's URL, with _ for each slash.",
    }),
  ),
  prefix: Type.Optional(
    Type.String({
      pattern: '^[A-Za-z0-9_.-]{1,64}$',
      hint: 'must be 1 to 64 letters, digits, _, - or .',
      description:
        'Text before the names of the tools and prompts of a plug-in, such as `docs-`. (hyper-mcp)',
    }),
  ),
  title: Type.Optional(Type.String({ minLength: 1, description: 'Title of the tool, for people.' })),
  description: Type.Optional(
    Type.String({ minLength: 1, description: "Description of the tool, for models. Default: the route's." }),
  ),
  inputSchema: Type.Optional(
    jsonObject('JSON Schema of the arguments. Default: that of the XTP schema, else one string.'),
  ),
  input: Type.Optional(
    Type.Enum(['json', 'text'], {
      description:
        'What the guest gets: the arguments as JSON, or the bytes of their only text. Default: `text` if the only parameter is a string.',
    }),
  ),
  outputSchema: Type.Optional(
    jsonObject('JSON Schema of the result. Default: that of the XTP schema, else none.'),
  ),
  task: Type.Optional(
    Type.Object(
      {
        enabled: Type.Optional(Type.Boolean({ description: 'Whether calls become tasks. Default: true.' })),
        afterMs: Type.Optional(
          Type.Integer({
            minimum: 0,
            maximum: 3_600_000,
            description: 'Time after which a call becomes a task, in ms. Default: 0, at once.',
          }),
        ),
        required: Type.Optional(
          Type.Boolean({ description: 'Refuse clients that do not know tasks. Default: false.' }),
        ),
        ttlMs: Type.Optional(
          Type.Integer({
            minimum: 1_000,
            maximum: 604_800_000,
            description: 'Time for which a task and its result are known, in ms. Default: 3,600,000.',
          }),
        ),
      },
      {
        additionalProperties: false,
        description:
          'Calls become tasks, whose results clients fetch later, for clients that know them. Default: calls are answered.',
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
      { additionalProperties: false, description: 'Hints for clients about the effects of the tool.' },
    ),
  ),
})
