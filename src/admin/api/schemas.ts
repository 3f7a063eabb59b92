import { EDITABLE_OPTIONS } from '../../deploy/edits.ts'
import { routeSchema } from '../../options/options-schema.ts'
import { type Schema, schemasOf } from '../../options/schema.ts'
import type { JsonSchema } from '../../route/openapi/xtp-schema.ts'

/*
 * The schemas of the admin API. They validate bodies and generate both API descriptions. Options of a route are
 * validated like those of a config file.
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

const routeOptions = Object.fromEntries(
  Object.entries(schemasOf(routeSchema))
    .filter(([name]) => EDITABLE_OPTIONS.has(name))
    .map(([name, schema]) => [name, plain(schema)]),
)

/** Custom keywords express checks that JSON Schema cannot. */
function plain(schema: Schema): JsonSchema {
  const { type, description = '', default: value, enum: names = schema.nameOrContract } = schema
  if (schema.threadCount) return { anyOf: [{ type: 'integer', minimum: 0 }, { const: 'auto' }], description }
  if (schema.anyOf) return { anyOf: schema.anyOf as readonly JsonSchema[], description }
  return {
    ...(type !== undefined ? { type } : names ? { type: 'string' } : {}),
    description,
    ...(value !== undefined && { default: value }),
    ...(names && { enum: names }),
    ...(type === 'object' &&
      !schema.properties && { additionalProperties: !schema.patternProperties || { type: 'string' } }),
    ...(schema.properties && {
      properties: Object.fromEntries(
        Object.entries(schema.properties).map(([key, part]) => [key, plain(part)]),
      ),
    }),
    ...(type === 'array' && { items: { type: 'string' } }),
  }
}

/** Of a request: the console and metrics show the first 12 digits. */
const digestPrefix: JsonSchema = {
  type: 'string',
  pattern: '^[0-9a-f]{8,64}$',
  description: 'SHA-256, in hex, or the first digits of it if no other version has them.',
}

const share = objectSchema({ digest: digestPrefix, percent: { ...percent, minimum: 1 } })

const callFields = {
  method: { type: 'string', pattern: '^[A-Z]{1,20}$', default: 'POST' },
  url: { type: 'string', pattern: '^/', description: 'Path and query of the request.' },
  headers: { type: 'object', additionalProperties: { type: 'string' } },
} as const satisfies Record<string, JsonSchema>

export const bodies = {
  source: objectSchema(
    {
      source: {
        type: 'string',
        minLength: 1,
        description: 'URL of a `.wasm` or of a manifest, or `oci://REGISTRY/NAME[:TAG][@DIGEST]`.',
      },
      wasm: {
        type: 'string',
        minLength: 1,
        description: 'Instead of `source`: the bytes of a module, in base64.',
      },
      bundle: {
        type: 'string',
        minLength: 1,
        description: 'The Sigstore bundle that signs `wasm`, as JSON text.',
      },
    },
    [],
  ),
  traffic: {
    ...listSchema(share, 'The live version and optionally a second one. The percentages add up to 100.'),
    minItems: 1,
    maxItems: 2,
  },
  rollback: objectSchema({ digest: digestPrefix }, []),
  fleetRollback: objectSchema({ revision: { type: 'integer', minimum: 1 } }, []),
  call: objectSchema(
    { ...callFields, body: { type: 'string', description: 'The body in base64. Default: none.' } },
    ['url'],
  ),
  streamedCall: objectSchema(
    {
      ...callFields,
      hasBody: {
        type: 'boolean',
        default: false,
        description: 'Whether the body follows, in a request to `/api/streams/{id}`.',
      },
    },
    ['url'],
  ),
  route: {
    type: 'object',
    properties: {
      plugin: { type: 'string', minLength: 1, description: 'The name of its plug-in.' },
      ...routeOptions,
    },
    required: ['plugin'],
    description:
      'As in a config file. Omitted options have the defaults of the plug-in and the configuration.',
  },
} as const satisfies Record<string, JsonSchema>

const totals = {
  calls: countSchema('Calls of its present versions on its present routes since they were opened.'),
  failures: countSchema(
    'Calls of these that failed. An error returned by the guest, or a client that disconnected, is not a failure.',
  ),
  guestMs: { type: 'number', description: 'Time of these in the guest, in milliseconds.' },
} as const

const figures = {
  outcomes: {
    type: 'object',
    additionalProperties: { type: 'integer' },
    description: 'Number of calls by outcome, without zeros.',
  },
  guest: listSchema({ type: 'integer' }, 'Histogram of guest time: one count per bucket.'),
  queue: listSchema({ type: 'integer' }, 'Histogram of queue time: one count per bucket.'),
  waiting: countSchema('Queued calls.'),
  instances: countSchema('Open instances.'),
  guestBytes: countSchema('Memory of the guests, in bytes.'),
  kernelBytes: countSchema('Memory for the exchange between guests and host, in bytes.'),
} as const satisfies Record<string, JsonSchema>

export const SCHEMAS = {
  Problem: {
    ...objectSchema(
      {
        type: textSchema('Always `about:blank`.'),
        title: textSchema('The reason phrase of the status.'),
        status: countSchema('The HTTP status.'),
        detail: textSchema('What failed and what to do.'),
        code: textSchema('A stable error code for programs.'),
        requestId: textSchema('The id of the request in the log.'),
      },
      ['title', 'status', 'detail', 'code'],
    ),
    description: 'Problem details (RFC 9457).',
  },
  Change: {
    ...objectSchema(
      {
        at: { type: 'string', format: 'date-time' },
        reason: textSchema('The trigger of the change.'),
        ok: { type: 'boolean', description: 'Whether the change is live. If false, nothing changed.' },
        revision: countSchema('The current revision.'),
        ms: countSchema('Duration in milliseconds.'),
        routes: countSchema('Number of routes after the change.'),
        kept: countSchema('Number of route plug-ins that kept their instances.'),
        warnings: listSchema({ type: 'string' }),
        error: objectSchema({
          code: textSchema('A stable code for programs.'),
          message: textSchema('A message for people.'),
        }),
      },
      ['at', 'reason', 'ok', 'revision', 'ms', 'routes', 'kept', 'warnings'],
    ),
    description: 'The result of a change.',
  },
  Behind: {
    ...objectSchema(
      {
        since: { type: 'string', format: 'date-time', description: 'When the first of the reloads failed.' },
        reason: textSchema('The trigger of the last one.'),
        code: textSchema('Why it has failed.'),
        message: textSchema('What has failed and what to do.'),
        plugins: listSchema(
          { type: 'string' },
          'The plug-ins whose older versions are served. Absent: all. Only `wasm-serve dev` reloads the others.',
        ),
      },
      ['since', 'reason', 'code', 'message'],
    ),
    description:
      'Present while the configuration and its files are not served as they were read last, because reloads, or builds of `wasm-serve dev`, fail.',
  },
  Overview: objectSchema(
    {
      revision: countSchema('The current revision. It grows with each change.'),
      url: textSchema('The URL of the routes for clients.'),
      state: { type: 'string', enum: ['starting', 'serving', 'draining'] },
      routes: countSchema('Number of routes.'),
      plugins: countSchema('Number of plug-ins.'),
      changed: {
        type: 'boolean',
        description: 'Whether the admin API has changed anything since the configuration.',
      },
      changes: objectSchema({
        applied: countSchema('Changes applied since the start.'),
        refused: countSchema('Changes refused since the start.'),
      }),
      behind: { $ref: '#/components/schemas/Behind' },
    },
    ['revision', 'state', 'routes', 'plugins', 'changed', 'changes'],
  ),
  Version: objectSchema(
    {
      digest: digestSchema,
      module: { ...digestSchema, description: 'SHA-256 of the main module, as in metrics.' },
      from: { type: 'string', enum: ['file', 'url', 'upload'] },
      addedAt: { type: 'string', format: 'date-time' },
      bytes: countSchema('Total size of all modules.'),
      origin: textSchema(
        'Where the main module comes from: an artifact by its digest, or a URL. Absent for others.',
      ),
      signer: textSchema('The verified signer of the main module. Absent if none was required.'),
      attestations: listSchema({ type: 'string' }, 'Predicate types of verified attestations.'),
      configured: { type: 'boolean', description: 'Whether the current configuration names it.' },
      percent: { ...percent, description: 'Its share of calls, in percent.' },
      calls: countSchema('Calls that it got while calls were split, on routes that still exist.'),
      failures: countSchema('Calls of these that failed. An error returned by the guest is not a failure.'),
    },
    ['digest', 'module', 'from', 'addedAt', 'bytes', 'configured', 'percent', 'calls', 'failures'],
  ),
  Plugin: objectSchema({
    name: textSchema('The name in the API and in URLs.'),
    added: { type: 'boolean', description: 'Whether the admin API added it.' },
    versions: listSchema({ $ref: '#/components/schemas/Version' }, 'The versions, the newest first.'),
    routes: listSchema({ type: 'string' }, 'The ids of its routes.'),
    urls: listSchema({ type: 'string' }, 'The URLs of its routes, after their hosts if they have one.'),
    exports: listSchema({ type: 'string' }, 'The callable functions of the live version.'),
    imports: listSchema(
      objectSchema({ module: textSchema('Module of the import.'), name: textSchema('Name of the import.') }),
    ),
    ...totals,
  }),
  Route: objectSchema(
    {
      id: textSchema('The id, derived from method, host and URL.'),
      url: textSchema('The URL in Fastify’s route syntax.'),
      methods: listSchema({ type: 'string' }, '`*` alone: all.'),
      host: textSchema('The only host of the route.'),
      plugin: textSchema('The name of its plug-in.'),
      digest: { ...digestSchema, description: 'SHA-256 of the main module of the live version.' },
      function: textSchema('The exported function that it calls.'),
      contract: textSchema('raw, http, simplism, hyper-mcp, websocket.'),
      engine: { type: 'string', enum: ['inline', 'workers', 'subprocess'] },
      workers: countSchema('Number of threads for its calls.'),
      streams: {
        type: 'boolean',
        description: 'Whether its guests stream bodies and responses.',
      },
      description: textSchema('The description from the configuration.'),
      trouble: textSchema('The current problem, if any.'),
      errorStatus: countSchema('The HTTP status when the guest returns an error.'),
      split: objectSchema({
        digest: digestSchema,
        percent,
        engine: { type: 'string', enum: ['inline', 'workers', 'subprocess'] },
        workers: countSchema('Number of threads for the second version.'),
      }),
      tool: objectSchema({
        name: textSchema('The name of the tool. Absent: the plug-in names its tools itself.'),
        isOnly: { type: 'boolean', description: 'Whether the route is not served at its URL.' },
      }),
      ...totals,
      from: { type: 'string', enum: ['configuration', 'api'] },
      options: {
        type: 'object',
        additionalProperties: true,
        description: 'The requested options, if the API added the route.',
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
      'calls',
      'failures',
      'guestMs',
      'from',
    ],
  ),
  Live: objectSchema(
    {
      revision: countSchema('Grows with each change of this server, also in a fleet.'),
      state: { type: 'string', enum: ['starting', 'serving', 'draining'] },
      url: textSchema('The URL of the routes for clients.'),
      mcp: textSchema('The URL of the MCP endpoint, below that of the routes.'),
      node: textSchema('Its name, if the server is a node of a fleet.'),
      version: textSchema('The version of wasm-serve.'),
      ms: {
        type: 'number',
        description: 'Milliseconds since the start of the process: the clock of the counts.',
      },
      memoryBytes: countSchema('Resident memory of the process (RSS).'),
      boundsMs: listSchema(
        { type: 'number' },
        'Upper bounds of the buckets. One more bucket is above the last bound.',
      ),
      routes: countSchema('Number of routes.'),
      plugins: countSchema('Number of plug-ins.'),
      behind: { $ref: '#/components/schemas/Behind' },
      total: {
        ...objectSchema(figures),
        description: 'All routes together since the start, including those that are no longer served.',
      },
      meters: listSchema(
        objectSchema({
          route: textSchema('The URL of the route, after its host if it has one.'),
          plugin: textSchema('The name of the plug-in.'),
          digest: textSchema('The first 12 digits of the digest.'),
          ...figures,
        }),
        'Versions on routes. Of those that share their labels in `/metrics`, only the outcomes `ok` and `error` are counted separately, and the histograms are empty.',
      ),
    },
    [
      ...['revision', 'state', 'version', 'ms', 'memoryBytes', 'boundsMs'],
      ...['routes', 'plugins', 'total', 'meters'],
    ],
  ),
  Process: objectSchema(
    {
      number: { type: 'integer', minimum: 1, description: 'Its number, which its log lines carry.' },
      pid: countSchema('Its process id.'),
      state: { type: 'string', enum: ['starting', 'serving', 'silent', 'waiting'] },
      silentMs: countSchema('Milliseconds since its last sign of life.'),
      servingMs: countSchema('How long it has served, in milliseconds.'),
      revision: countSchema('The revision that it serves, as of its last report.'),
      memoryBytes: countSchema('Resident memory (RSS), as of its last report.'),
      connections: countSchema('Open connections.'),
      lost: countSchema('How often a process of this number was lost.'),
      lastEnd: textSchema('How the last lost one exited: a signal or an exit code.'),
      problem: textSchema('Why its replacement could not be started: a code.'),
      trouble: textSchema('A problem of the process, such as few file descriptors.'),
    },
    ['number', 'state', 'connections', 'lost'],
  ),
  FleetRevision: objectSchema({
    revision: { type: 'integer', minimum: 1, description: 'Its number. It grows with each change.' },
    at: textSchema('When it was stored, by the clock of the store.'),
    by: textSchema('Who made it: the `From` header of the request, or the node or user.'),
    reason: textSchema('The change.'),
  }),
  FleetNode: objectSchema(
    {
      node: textSchema('Its name.'),
      live: { type: 'boolean', description: 'Whether it has reported in time.' },
      revision: countSchema('The revision that it serves; 0 if none of the fleet.'),
      since: textSchema('Since when.'),
      from: {
        type: 'string',
        enum: ['fleet', 'copy', 'files'],
        description: 'Its source: the store, its state folder, or its own files.',
      },
      refused: objectSchema({
        revision: countSchema('The revision that it cannot serve.'),
        code: textSchema('The code of the failure.'),
        message: textSchema('The reason.'),
      }),
      version: textSchema('Its version of wasm-serve.'),
      url: textSchema('Its URL, as it sees it.'),
      plugins: {
        type: 'object',
        additionalProperties: digestSchema,
        description: 'Digests of its live plug-ins, by name: at most 100.',
      },
      pluginCount: countSchema('Number of its live plug-ins.'),
      lastSeen: textSchema('When it has reported last.'),
    },
    ['node', 'live', 'revision', 'since', 'from', 'version', 'plugins', 'pluginCount', 'lastSeen'],
  ),
  Fleet: objectSchema(
    {
      name: textSchema('The store and the name of the fleet.'),
      id: textSchema('Made with its first revision.'),
      node: textSchema('The name of the node that responds.'),
      connected: {
        type: 'boolean',
        description: 'Whether the store can be reached. If not, the rest is older.',
      },
      newest: { $ref: '#/components/schemas/FleetRevision' },
      before: { $ref: '#/components/schemas/FleetRevision' },
      rollout: objectSchema(
        {
          phase: {
            type: 'string',
            enum: ['canary', 'all', 'done', 'stopped'],
            description:
              '`canary`: only some nodes serve the newest revision; `all`: the others follow; `done`: all have reported; `stopped`: no further node serves it.',
          },
          since: textSchema('Since when it has this phase.'),
          nodes: listSchema({ type: 'string' }, 'The canary nodes.'),
          until: textSchema('When the canary phase ends.'),
          problem: textSchema('Why it stopped or was rolled back.'),
        },
        ['phase', 'since', 'nodes'],
      ),
      nodes: listSchema({ $ref: '#/components/schemas/FleetNode' }, 'In the order of their names.'),
      revisions: listSchema({ $ref: '#/components/schemas/FleetRevision' }, 'The newest first.'),
    },
    ['nodes', 'revisions'],
  ),
  LogLine: {
    type: 'object',
    properties: {
      level: textSchema('The log level.'),
      time: textSchema('The time of the line.'),
      msg: textSchema('The message.'),
    },
    additionalProperties: true,
    description:
      'The line as logged. `reqId` is the id of the request, `plugin` and `function` name the guest function.',
  },
  Answer: objectSchema({
    status: countSchema('The status of the response.'),
    headers: {
      type: 'object',
      additionalProperties: true,
      description: 'Values are strings or lists of strings.',
    },
    body: textSchema('The body in base64.'),
    ms: { type: 'number', description: 'From the request to the last byte of the response.' },
  }),
  CallLine: {
    ...objectSchema(
      {
        ms: { type: 'number', description: 'Time since the request began.' },
        call: textSchema('The id of the call: the first line.'),
        uploaded: countSchema('Bytes of the body that were sent so far.'),
        status: countSchema('The status of the response.'),
        headers: {
          type: 'object',
          additionalProperties: true,
          description: 'With the status. Values are strings or lists of strings.',
        },
        data: textSchema('The next bytes of the response body, in base64.'),
        trailers: { type: 'object', additionalProperties: true, description: 'The last line: the end.' },
        problem: textSchema('The last line: why the response was aborted, or did not begin.'),
      },
      ['ms'],
    ),
    description:
      'A line of the response to a streamed call. Besides `ms` it has one of the fields, or none: there is one each second.',
  },
  SentBody: objectSchema({ bytes: countSchema('Bytes that were sent.') }),
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
