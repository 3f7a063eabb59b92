import { EDITABLE_OPTIONS } from '../../deploy/edits.ts'
import { type Schema, schemasOf } from '../../options/config-file-schema.ts'
import { routeSchema } from '../../options/options-schema.ts'
import type { JsonSchema } from '../../route/openapi/xtp-schema.ts'

/*
 * What goes in and out of the admin API. Bodies are checked by these, and both documents are made from them; the options
 * of a route are checked as those of a config file are.
 */

const textSchema = (description: string): JsonSchema => ({ type: 'string', description })
const countSchema = (description: string): JsonSchema => ({ type: 'integer', minimum: 0, description })
const listSchema = (items: JsonSchema, description?: string): JsonSchema =>
  description === undefined ? { type: 'array', items } : { type: 'array', items, description }
const objectSchema = (
  properties: Readonly<Record<string, JsonSchema>>,
  required: readonly string[] = Object.keys(properties),
): JsonSchema => ({ type: 'object', properties, required, additionalProperties: false })

export const ref = (name: keyof typeof SCHEMAS): JsonSchema => ({ $ref: `#/components/schemas/${name}` })

const digestSchema: JsonSchema = {
  type: 'string',
  pattern: '^[0-9a-f]{64}$',
  description: 'SHA-256, in hex.',
}
const percent: JsonSchema = { type: 'integer', minimum: 0, maximum: 100 }

const EDITABLE_ROUTE_OPTIONS: ReadonlySet<string> = new Set(EDITABLE_OPTIONS)

const routeOptions = Object.fromEntries(
  Object.entries(schemasOf(routeSchema))
    .filter(([name]) => EDITABLE_ROUTE_OPTIONS.has(name))
    .map(([name, schema]) => [name, plain(schema)]),
)

/** A plug-in's own keywords say what no JSON schema can. */
function plain(schema: Schema): JsonSchema {
  const { type, description = '', default: value, enum: names = schema.nameOrContract } = schema
  if (schema.threadCount) return { anyOf: [{ type: 'integer', minimum: 0 }, { const: 'auto' }], description }
  if (schema.anyOf) return { anyOf: schema.anyOf as readonly JsonSchema[], description }
  return {
    ...(type !== undefined ? { type } : names ? { type: 'string' } : {}),
    description,
    ...(value !== undefined && { default: value }),
    ...(names && { enum: names }),
    ...(type === 'object' && !schema.properties && { additionalProperties: { type: 'string' } }),
    ...(schema.properties && {
      properties: Object.fromEntries(
        Object.entries(schema.properties).map(([key, part]) => [key, plain(part)]),
      ),
    }),
    ...(type === 'array' && { items: { type: 'string' } }),
  }
}

const share = objectSchema({ digest: digestSchema, percent: { ...percent, minimum: 1 } })

export const bodies = {
  source: objectSchema({
    source: { type: 'string', minLength: 1, description: 'URL of a `.wasm` or of a manifest.' },
  }),
  traffic: {
    ...listSchema(share, 'The version that is live, and perhaps a second one; in all 100 percent.'),
    minItems: 1,
    maxItems: 2,
  },
  rollback: objectSchema({ digest: digestSchema }, []),
  call: objectSchema(
    {
      method: { type: 'string', pattern: '^[A-Z]{1,20}$', default: 'POST' },
      url: { type: 'string', pattern: '^/', description: 'Path and query.' },
      headers: { type: 'object', additionalProperties: { type: 'string' } },
      body: { type: 'string', description: 'In base64. Default: none.' },
    },
    ['url'],
  ),
  route: {
    type: 'object',
    properties: {
      plugin: { type: 'string', minLength: 1, description: 'Name of its plug-in.' },
      ...routeOptions,
    },
    required: ['plugin'],
    description: 'As in a config file; what is left out is as the plug-in and the defaults there have it.',
  },
} as const satisfies Record<string, JsonSchema>

export const SCHEMAS = {
  Problem: {
    ...objectSchema(
      {
        type: textSchema('Always `about:blank`.'),
        title: textSchema('The name of the status.'),
        status: countSchema('The status.'),
        detail: textSchema('What is wrong, and what to do.'),
        code: textSchema('What is wrong, for programs: it never changes.'),
        requestId: textSchema('As in the log.'),
      },
      ['title', 'status', 'detail', 'code'],
    ),
    description: 'Problem details (RFC 9457).',
  },
  Change: {
    ...objectSchema(
      {
        at: { type: 'string', format: 'date-time' },
        reason: textSchema('What asked for it.'),
        ok: { type: 'boolean', description: 'Whether it is live; else all is as it was.' },
        revision: countSchema('What is live now.'),
        ms: countSchema('How long it took.'),
        routes: countSchema('Routes that are served now.'),
        kept: countSchema('Plug-ins of routes that kept their instances.'),
        warnings: listSchema({ type: 'string' }),
        error: objectSchema({ code: textSchema('For programs.'), message: textSchema('For people.') }),
      },
      ['at', 'reason', 'ok', 'revision', 'ms', 'routes', 'kept', 'warnings'],
    ),
    description: 'What came of a change.',
  },
  Overview: objectSchema(
    {
      revision: countSchema('Grows with each change.'),
      url: textSchema('Where clients reach the routes.'),
      state: { type: 'string', enum: ['starting', 'serving', 'draining'] },
      routes: countSchema('Routes that are served.'),
      plugins: countSchema('Plug-ins that there are.'),
      changed: {
        type: 'boolean',
        description: 'Whether the admin API has changed what the configuration says.',
      },
      changes: objectSchema({
        applied: countSchema('Since the start.'),
        refused: countSchema('Since the start.'),
      }),
    },
    ['revision', 'state', 'routes', 'plugins', 'changed', 'changes'],
  ),
  Version: objectSchema({
    digest: digestSchema,
    module: { ...digestSchema, description: 'SHA-256 of the main module, as metrics have it.' },
    from: { type: 'string', enum: ['file', 'url', 'upload'] },
    addedAt: { type: 'string', format: 'date-time' },
    bytes: countSchema('Of all modules.'),
    configured: { type: 'boolean', description: 'Whether the configuration names it at present.' },
    percent: { ...percent, description: 'How many calls of 100 it gets.' },
    calls: countSchema('Calls that it got while they were split, by routes that are served.'),
    failures: countSchema('Of these, those that failed. That a guest says no is no failure.'),
  }),
  Plugin: objectSchema({
    name: textSchema('Here, and in URLs.'),
    added: { type: 'boolean', description: 'Whether it was added by the admin API.' },
    versions: listSchema({ $ref: '#/components/schemas/Version' }, 'The newest first.'),
    routes: listSchema({ type: 'string' }, 'Ids of its routes.'),
    exports: listSchema({ type: 'string' }, 'Functions of the live version that can be called.'),
    imports: listSchema(
      objectSchema({ module: textSchema('Of the import.'), name: textSchema('Of the import.') }),
    ),
  }),
  Route: objectSchema(
    {
      id: textSchema('From method, host and URL.'),
      url: textSchema('As Fastify has it.'),
      methods: listSchema({ type: 'string' }, '`*` alone: all.'),
      host: textSchema('The only one that it answers to.'),
      plugin: textSchema('Name of its plug-in.'),
      digest: { ...digestSchema, description: 'Of the main module of the live version.' },
      function: textSchema('The export that is called.'),
      contract: textSchema('raw, http, simplism.'),
      engine: { type: 'string', enum: ['inline', 'workers', 'subprocess'] },
      workers: countSchema('Threads that run its calls.'),
      description: textSchema('In the words of the configuration.'),
      trouble: textSchema('What is wrong with it at present.'),
      errorStatus: countSchema('Status when the guest says no.'),
      split: objectSchema({
        digest: digestSchema,
        percent,
        engine: { type: 'string', enum: ['inline', 'workers', 'subprocess'] },
        workers: countSchema('Threads that run the calls of the second version.'),
      }),
      from: { type: 'string', enum: ['configuration', 'api'] },
      options: {
        type: 'object',
        additionalProperties: true,
        description: 'What was asked for, if it is from the API.',
      },
    },
    [
      'id',
      'url',
      'methods',
      'plugin',
      'digest',
      'function',
      'contract',
      'engine',
      'workers',
      'errorStatus',
      'from',
    ],
  ),
  Live: objectSchema(
    {
      revision: countSchema('What is live.'),
      state: { type: 'string', enum: ['starting', 'serving', 'draining'] },
      url: textSchema('Where clients reach the routes.'),
      version: textSchema('Of wasm-serve.'),
      ms: { type: 'number', description: 'Since the start of the process: the clock of the counts.' },
      memoryBytes: countSchema('Memory of the process. (RSS)'),
      boundsMs: listSchema(
        { type: 'number' },
        'Upper bounds of the buckets; one more bucket is above the last.',
      ),
      meters: listSchema(
        objectSchema({
          route: textSchema('Its URL, with its host in front if it has one.'),
          plugin: textSchema('As in the log.'),
          digest: textSchema('The first 12 digits.'),
          outcomes: {
            type: 'object',
            additionalProperties: { type: 'integer' },
            description: 'How many calls ended how; those that are 0 are left out.',
          },
          guest: listSchema({ type: 'integer' }, 'Calls by how long the guest ran: one number a bucket.'),
          queue: listSchema({ type: 'integer' }, 'Calls by how long they waited.'),
          waiting: countSchema('Calls that wait.'),
          instances: countSchema('That are open.'),
          guestBytes: countSchema('Memory of the guests.'),
          kernelBytes: countSchema('Memory between guests and host.'),
        }),
      ),
    },
    ['revision', 'state', 'version', 'ms', 'memoryBytes', 'boundsMs', 'meters'],
  ),
  LogLine: {
    type: 'object',
    properties: { level: textSchema('Of the line.'), time: textSchema('When.'), msg: textSchema('What.') },
    additionalProperties: true,
    description: 'As it was logged: `reqId` is the id of the request, `plugin` and `function` are what ran.',
  },
  Answer: objectSchema({
    status: countSchema('Of the answer.'),
    headers: { type: 'object', additionalProperties: true, description: 'Texts, or lists of texts.' },
    body: textSchema('In base64.'),
    ms: { type: 'number', description: 'From the request to the last byte of the answer.' },
  }),
  ChangedPlugin: objectSchema({
    change: { $ref: '#/components/schemas/Change' },
    plugin: { $ref: '#/components/schemas/Plugin' },
  }),
  ChangedRoute: objectSchema({
    change: { $ref: '#/components/schemas/Change' },
    route: { $ref: '#/components/schemas/Route' },
  }),
  Changed: objectSchema({ change: { $ref: '#/components/schemas/Change' } }),
} as const satisfies Record<string, JsonSchema>
