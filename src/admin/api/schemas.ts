import { EDITABLE_OPTIONS } from '../../deploy/edits.ts'
import { type Schema, schemasOf } from '../../options/config-file-schema.ts'
import { routeSchema } from '../../options/options-schema.ts'
import type { JsonSchema } from '../../route/openapi/xtp-schema.ts'

/*
 * What goes in and out of the admin API. Bodies are checked by these, and both documents are made from them; the options
 * of a route are checked as those of a config file are.
 */

const text = (description: string): JsonSchema => ({ type: 'string', description })
const count = (description: string): JsonSchema => ({ type: 'integer', minimum: 0, description })
const list = (items: JsonSchema, description?: string): JsonSchema =>
  description === undefined ? { type: 'array', items } : { type: 'array', items, description }
const object = (
  properties: Readonly<Record<string, JsonSchema>>,
  required: readonly string[] = Object.keys(properties),
): JsonSchema => ({ type: 'object', properties, required, additionalProperties: false })

export const ref = (name: keyof typeof SCHEMAS): JsonSchema => ({ $ref: `#/components/schemas/${name}` })

const digest: JsonSchema = { type: 'string', pattern: '^[0-9a-f]{64}$', description: 'SHA-256, in hex.' }
const percent: JsonSchema = { type: 'integer', minimum: 0, maximum: 100 }

const EDITABLE: ReadonlySet<string> = new Set(EDITABLE_OPTIONS)

const routeOptions = Object.fromEntries(
  Object.entries(schemasOf(routeSchema))
    .filter(([name]) => EDITABLE.has(name))
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

const share = object({ digest, percent: { ...percent, minimum: 1 } })

export const bodies = {
  source: object({
    source: { type: 'string', minLength: 1, description: 'URL of a `.wasm` or of a manifest.' },
  }),
  traffic: {
    ...list(share, 'The version that is live, and perhaps a second one; in all 100 percent.'),
    minItems: 1,
    maxItems: 2,
  },
  rollback: object({ digest }, []),
  call: object(
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
    ...object(
      {
        type: text('Always `about:blank`.'),
        title: text('The name of the status.'),
        status: count('The status.'),
        detail: text('What is wrong, and what to do.'),
        code: text('What is wrong, for programs: it never changes.'),
        requestId: text('As in the log.'),
      },
      ['title', 'status', 'detail', 'code'],
    ),
    description: 'Problem details (RFC 9457).',
  },
  Change: {
    ...object(
      {
        at: { type: 'string', format: 'date-time' },
        reason: text('What asked for it.'),
        ok: { type: 'boolean', description: 'Whether it is live; else all is as it was.' },
        revision: count('What is live now.'),
        ms: count('How long it took.'),
        routes: count('Routes that are served now.'),
        kept: count('Plug-ins of routes that kept their instances.'),
        warnings: list({ type: 'string' }),
        error: object({ code: text('For programs.'), message: text('For people.') }),
      },
      ['at', 'reason', 'ok', 'revision', 'ms', 'routes', 'kept', 'warnings'],
    ),
    description: 'What came of a change.',
  },
  Overview: object(
    {
      revision: count('Grows with each change.'),
      url: text('Where clients reach the routes.'),
      state: { type: 'string', enum: ['starting', 'serving', 'draining'] },
      routes: count('Routes that are served.'),
      plugins: count('Plug-ins that there are.'),
      changed: {
        type: 'boolean',
        description: 'Whether the admin API has changed what the configuration says.',
      },
      changes: object({ applied: count('Since the start.'), refused: count('Since the start.') }),
    },
    ['revision', 'state', 'routes', 'plugins', 'changed', 'changes'],
  ),
  Version: object({
    digest,
    module: { ...digest, description: 'SHA-256 of the main module, as metrics have it.' },
    from: { type: 'string', enum: ['file', 'url', 'upload'] },
    addedAt: { type: 'string', format: 'date-time' },
    bytes: count('Of all modules.'),
    configured: { type: 'boolean', description: 'Whether the configuration names it at present.' },
    percent: { ...percent, description: 'How many calls of 100 it gets.' },
    calls: count('Calls that it got while they were split, by routes that are served.'),
    failures: count('Of these, those that failed. That a guest says no is no failure.'),
  }),
  Plugin: object({
    name: text('Here, and in URLs.'),
    added: { type: 'boolean', description: 'Whether it was added by the admin API.' },
    versions: list({ $ref: '#/components/schemas/Version' }, 'The newest first.'),
    routes: list({ type: 'string' }, 'Ids of its routes.'),
    exports: list({ type: 'string' }, 'Functions of the live version that can be called.'),
    imports: list(object({ module: text('Of the import.'), name: text('Of the import.') })),
  }),
  Route: object(
    {
      id: text('From method, host and URL.'),
      url: text('As Fastify has it.'),
      methods: list({ type: 'string' }, '`*` alone: all.'),
      host: text('The only one that it answers to.'),
      plugin: text('Name of its plug-in.'),
      digest: { ...digest, description: 'Of the main module of the live version.' },
      function: text('The export that is called.'),
      contract: text('raw, http, simplism.'),
      engine: { type: 'string', enum: ['inline', 'workers', 'subprocess'] },
      workers: count('Threads that run its calls.'),
      description: text('In the words of the configuration.'),
      trouble: text('What is wrong with it at present.'),
      errorStatus: count('Status when the guest says no.'),
      split: object({
        digest,
        percent,
        engine: { type: 'string', enum: ['inline', 'workers', 'subprocess'] },
        workers: count('Threads that run the calls of the second version.'),
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
  Live: object(
    {
      revision: count('What is live.'),
      state: { type: 'string', enum: ['starting', 'serving', 'draining'] },
      url: text('Where clients reach the routes.'),
      version: text('Of wasm-serve.'),
      ms: { type: 'number', description: 'Since the start of the process: the clock of the counts.' },
      memoryBytes: count('Memory of the process. (RSS)'),
      boundsMs: list({ type: 'number' }, 'Upper bounds of the buckets; one more bucket is above the last.'),
      meters: list(
        object({
          route: text('Its URL, with its host in front if it has one.'),
          plugin: text('As in the log.'),
          digest: text('The first 12 digits.'),
          outcomes: {
            type: 'object',
            additionalProperties: { type: 'integer' },
            description: 'How many calls ended how; those that are 0 are left out.',
          },
          guest: list({ type: 'integer' }, 'Calls by how long the guest ran: one number a bucket.'),
          queue: list({ type: 'integer' }, 'Calls by how long they waited.'),
          waiting: count('Calls that wait.'),
          instances: count('That are open.'),
          guestBytes: count('Memory of the guests.'),
          kernelBytes: count('Memory between guests and host.'),
        }),
      ),
    },
    ['revision', 'state', 'version', 'ms', 'memoryBytes', 'boundsMs', 'meters'],
  ),
  LogLine: {
    type: 'object',
    properties: { level: text('Of the line.'), time: text('When.'), msg: text('What.') },
    additionalProperties: true,
    description: 'As it was logged: `reqId` is the id of the request, `plugin` and `function` are what ran.',
  },
  Answer: object({
    status: count('Of the answer.'),
    headers: { type: 'object', additionalProperties: true, description: 'Texts, or lists of texts.' },
    body: text('In base64.'),
    ms: { type: 'number', description: 'From the request to the last byte of the answer.' },
  }),
  ChangedPlugin: object({
    change: { $ref: '#/components/schemas/Change' },
    plugin: { $ref: '#/components/schemas/Plugin' },
  }),
  ChangedRoute: object({
    change: { $ref: '#/components/schemas/Change' },
    route: { $ref: '#/components/schemas/Route' },
  }),
  Changed: object({ change: { $ref: '#/components/schemas/Change' } }),
} as const satisfies Record<string, JsonSchema>
