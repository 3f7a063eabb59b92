import Fastify, { type FastifyInstance } from 'fastify'
import { expect, onTestFinished, test } from 'vitest'
import * as library from '../../../src/index.ts'
import { createServer, type HostFunctions, type RouteOptions, wasmServe } from '../../../src/index.ts'
import { file, guest, guestBytes } from '../../support/guest.ts'

/** An app of somebody else, with routes mounted below a prefix; closed when the test ends. */
async function mount(routes: RouteOptions[], prepare: (app: FastifyInstance) => void = () => undefined) {
  const app = Fastify()
  onTestFinished(() => app.close())
  prepare(app)
  await app.register(wasmServe, { prefix: '/plugins', logLevel: 'silent', routes })
  return app
}

const post = (app: FastifyInstance, url: string, body: string | object = '') =>
  app.inject({ method: 'POST', url, payload: body })

test('routes are mounted below the prefix of the registration', async () => {
  const app = await mount([
    { url: '/upper', plugin: guest('upper') },
    { url: '/echo', plugin: guest('echo') },
  ])
  expect((await post(app, '/plugins/upper', 'abc')).body).toBe('ABC')
  expect((await post(app, '/plugins/echo', 'abc')).body).toBe('abc')
  expect((await post(app, '/upper', 'abc')).statusCode).toBe(404)
})

test("the app's own body parser, error handler and unknown routes stay as they were", async () => {
  const app = await mount([{ plugin: guest('trap') }], (app) => {
    app.setErrorHandler((error: Error, _request, reply) => reply.code(418).send({ mine: error.message }))
    app.post('/json', (request) => ({ got: request.body }))
    app.post('/fail', () => {
      throw new Error('own')
    })
  })
  expect((await post(app, '/json', { a: 1 })).json()).toEqual({ got: { a: 1 } })
  expect((await post(app, '/fail')).statusCode).toBe(418)
  expect((await post(app, '/nowhere')).json()).toMatchObject({ error: 'Not Found' })
  expect((await post(app, '/plugins/', 'trap!')).json()).toMatchObject({ code: 'WASM_SERVE_GUEST_TRAP' })
})

test('guests get JSON as the bytes that came', async () => {
  const app = await mount([{ plugin: guest('echo') }])
  const body = '{ "a" :1 }'
  const reply = await app.inject({
    method: 'POST',
    url: '/plugins/',
    headers: { 'content-type': 'application/json' },
    payload: body,
  })
  expect(reply.body).toBe(body)
})

test("the app's hooks run before the guest, and their errors go to the app's error handler", async () => {
  const app = await mount([{ plugin: guest('echo') }], (app) => {
    app.addHook('onRequest', async (request) => {
      if (!request.headers.authorization) throw Object.assign(new Error('who are you?'), { statusCode: 401 })
    })
    app.setErrorHandler((error: Error & { statusCode: number }, _request, reply) =>
      reply.code(error.statusCode).send(`app: ${error.message}`),
    )
  })
  const refused = await post(app, '/plugins/', 'x')
  expect([refused.statusCode, refused.body]).toEqual([401, 'app: who are you?'])
  const allowed = await app.inject({
    method: 'POST',
    url: '/plugins/',
    headers: { authorization: 'me' },
    payload: 'x',
  })
  expect(allowed.body).toBe('x')
})

test('a plug-in can be given as bytes, and one source is compiled once for several routes', async () => {
  const bytes = guestBytes('several')
  const app = await mount([
    { url: '/a', plugin: bytes, function: 'alpha' },
    { url: '/s', plugin: bytes, function: 'several' },
  ])
  expect((await post(app, '/plugins/a')).body).toBe('a')
  expect((await post(app, '/plugins/s')).body).toBe('s')
})

test('each route has an instance of its own', async () => {
  const app = await mount([
    { url: '/one', plugin: guest('count'), function: 'count' },
    { url: '/two', plugin: guest('count'), function: 'count' },
  ])
  expect((await post(app, '/plugins/one')).body).toBe('1')
  expect((await post(app, '/plugins/one')).body).toBe('2')
  expect((await post(app, '/plugins/two')).body).toBe('1')
})

test.each([
  ['no routes', { routes: [] }, 'WASM_SERVE_OPTIONS_INVALID'],
  ['an unknown option', { routes: [{ plugin: guest('echo'), timout: 1 }] }, 'WASM_SERVE_OPTIONS_INVALID'],
  ['a missing file', { routes: [{ plugin: 'absent.wasm' }] }, 'WASM_SERVE_PLUGIN_UNREADABLE'],
  ['no module', { routes: [{ plugin: Uint8Array.of(1) }] }, 'WASM_SERVE_PLUGIN_INVALID'],
  [
    'several functions and none named',
    { routes: [{ plugin: guest('several') }] },
    'WASM_SERVE_FUNCTION_UNKNOWN',
  ],
  [
    'an unknown function',
    { routes: [{ plugin: guest('echo'), function: 'ecko' }] },
    'WASM_SERVE_FUNCTION_UNKNOWN',
  ],
  [
    'a URL twice',
    { routes: [{ plugin: guest('echo') }, { plugin: guest('upper') }] },
    'WASM_SERVE_ROUTE_CONFLICT',
  ],
  [
    'a URL that is no route',
    { routes: [{ plugin: guest('echo'), url: '/a*b' }] },
    'WASM_SERVE_ROUTE_INVALID',
  ],
  [
    'one that fails among several',
    { routes: [{ plugin: guest('echo') }, { plugin: guest('bad-start'), url: '/b' }] },
    'WASM_SERVE_INSTANCE_START_FAILED',
  ],
])('%s is refused with a code, and nothing stays open', async (_, options, code) => {
  await expect(createServer({ logLevel: 'silent', ...options } as never)).rejects.toMatchObject({ code })
})

test.each([
  [
    'without admin',
    { adminToken: 'a-token-of-32-characters-or-so-12', adminHosts: ['a.example'], uploadLimit: 1 },
  ],
  ['with admin and no token', { adminToken: undefined, admin: '127.0.0.1:0' }],
])('options that createServer could only ignore are refused, each by its name (%s)', async (_, options) => {
  const routes = [{ plugin: guest('echo'), url: 1 }]
  const refused: unknown = await createServer({ ...options, routes } as never).catch((error) => error)
  expect(refused).toMatchObject({ code: 'WASM_SERVE_OPTIONS_INVALID' })
  const problems = library.problemsOf(refused as InstanceType<typeof library.OptionsError>)
  const names = Object.keys(options).filter((name) => name !== 'admin')
  expect(problems.map(({ option }) => option)).toEqual([...names, 'routes[0].url'])
})

test('an option that is undefined is none', async () => {
  const app = await createServer({
    logLevel: 'silent',
    port: undefined,
    routes: [{ plugin: guest('echo') }],
  } as never)
  expect((await app.inject({ method: 'POST', url: '/', payload: 'hi' })).body).toBe('hi')
  await app.close()
})

test('a server can be listened to as any Fastify app', async () => {
  const app = await createServer({ logLevel: 'silent', routes: [{ plugin: guest('upper') }] })
  onTestFinished(() => app.close())
  const url = await app.listen({ host: '127.0.0.1', port: 0 })
  expect(await (await fetch(url, { method: 'POST', body: 'abc' })).text()).toBe('ABC')
})

test('a closed app has closed its engines', async () => {
  const app = await createServer({ logLevel: 'silent', routes: [{ plugin: guest('upper') }] })
  await app.close()
  expect((await post(app, '/', 'x').catch((error) => error)).code).toBeDefined()
})

const callsHost = guestBytes(`(module
  (import "extism:host/user" "shout" (func $shout (param i64) (result i64)))
  (import "extism:host/env" "input_offset" (func $input_offset (result i64)))
  (import "extism:host/env" "length" (func $length (param i64) (result i64)))
  (import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
  (func (export "ask") (result i32)
    (local $answer i64)
    (local.set $answer (call $shout (call $input_offset)))
    (call $output_set (local.get $answer) (call $length (local.get $answer)))
    (i32.const 0)))`)

test.each([
  'kernel',
  'sdk',
] as const)('a guest can call functions of the host, on the %s runtime', async (runtime) => {
  const functions: HostFunctions = {
    'extism:host/user': {
      shout: (context, text) => context.store(`${context.read(text)?.text().toUpperCase()}!`),
    },
  }
  const app = await mount([{ plugin: callsHost, functions, runtime }])
  expect((await post(app, '/plugins/', 'hey')).body).toBe('HEY!')
})

test('host functions can come from a module, and know the request', async () => {
  const module = file(
    'functions.mjs',
    `export default { 'extism:host/user': { shout: (context) => context.store(context.hostContext().headers['x-name']) } }`,
  )
  const app = await mount([{ plugin: callsHost, functions: module }])
  const headers = { 'x-name': 'Ada' }
  expect((await app.inject({ method: 'POST', url: '/plugins/', headers, payload: 'x' })).body).toBe('Ada')
})

test.each([
  ['kernel', 'inline'],
  ['kernel', 'workers'],
  ['sdk', 'inline'],
  ['sdk', 'workers'],
] as const)('a host function that sets an error and throws is answered as a guest that says no (%s, %s)', async (runtime, engine) => {
  const functions = file(
    'says-no.mjs',
    `export default { 'extism:host/user': { shout: (context) => {
      context.setError('the shop is closed')
      throw new Error('secret')
    } } }`,
  )
  const app = await mount([
    {
      ...{ plugin: callsHost, functions, runtime, engine, errorStatus: 422 },
      ...(engine === 'workers' && { timeoutMs: 20_000 }),
    },
  ])
  for (let calls = 0; calls < 2; calls++) {
    const answer = await post(app, '/plugins/', 'x')
    expect([answer.statusCode, answer.body]).toEqual([422, 'the shop is closed'])
  }
})

test.each([
  ['no module', 'absent.mjs', 'WASM_SERVE_HOST_FUNCTION_INVALID'],
  [
    'a module without functions',
    file('empty.mjs', 'export const other = 1'),
    'WASM_SERVE_HOST_FUNCTION_INVALID',
  ],
  ['a namespace that is nothing', { 'extism:host/user': null }, 'WASM_SERVE_HOST_FUNCTION_INVALID'],
  ['a name of ours', { 'extism:host/env': { alloc: () => 0n } }, 'WASM_SERVE_HOST_FUNCTION_INVALID'],
  ['none', undefined, 'WASM_SERVE_PLUGIN_IMPORT_MISSING'],
])('%s is refused where host functions are wanted', async (_, functions, code) => {
  const route = { plugin: callsHost, ...(functions && { functions }) } as RouteOptions
  await expect(mount([route])).rejects.toMatchObject({ code })
})

test('what the package exports changes only on purpose', () => {
  expect(Object.keys(library).sort()).toMatchInlineSnapshot(`
    [
      "AdminBusyError",
      "AdminConflictError",
      "AdminForbiddenError",
      "AdminOriginRefusedError",
      "AdminRequestError",
      "AdminTokenRefusedError",
      "AdminUnknownError",
      "AllowedPathError",
      "ApiKeyRefusedError",
      "ArtifactUnsupportedError",
      "AttestationMissingError",
      "BadRequestError",
      "BenchAnswersError",
      "BenchServerError",
      "BodyTooLargeError",
      "BreakerOpenError",
      "BudgetExceededError",
      "BuildFailedError",
      "CacheDamagedError",
      "CacheUntrustedError",
      "CallRefusedError",
      "ChangeRefusedError",
      "CheckFailedError",
      "ClientGoneError",
      "ConfigInvalidError",
      "ConfigUnreadableError",
      "ContractBrokenError",
      "ControlFramesError",
      "CredentialsInvalidError",
      "DeadlineError",
      "DigestMismatchError",
      "DownloadRefusedError",
      "DownloadTimeoutError",
      "DownloadTooLargeError",
      "DownloadUnreachableError",
      "EngineClosedError",
      "ExpectationFailedError",
      "ExtismInputTooLargeError",
      "ExtismPluginClosedError",
      "ExtismThreadLostError",
      "FilesUnsettledError",
      "FleetChangedError",
      "FleetContentError",
      "FleetEmptyError",
      "FleetForbiddenError",
      "FleetNoCopyError",
      "FleetNotAppliedError",
      "FleetRevisionError",
      "FleetUnavailableError",
      "FunctionUnknownError",
      "GuestError",
      "GuestExitError",
      "GuestStallError",
      "GuestTrapError",
      "HeadersTooLargeError",
      "HostFunctionAsyncError",
      "HostFunctionInvalidError",
      "HostUnavailableError",
      "HttpVersionError",
      "InputUnreadableError",
      "InstanceBusyError",
      "InstanceRemoteError",
      "InstanceStartError",
      "InstancesFullError",
      "InternalError",
      "JwtKeyInvalidError",
      "JwtKeysUnavailableError",
      "KvArgumentInvalidError",
      "KvReadOnlyError",
      "KvValueTooLargeError",
      "ListenError",
      "ManifestInvalidError",
      "McpContentTypeError",
      "McpNotAcceptableError",
      "McpOriginRefusedError",
      "McpStreamsFullError",
      "McpTasksFullError",
      "MethodNotAllowedError",
      "MountConflictError",
      "NamespaceNotRenamedError",
      "NamespaceSharedError",
      "OptionsError",
      "OutboundFailedError",
      "OutboundRefusedError",
      "OutboundRequestInvalidError",
      "OutboundTimeoutError",
      "OutboundTooLargeError",
      "OutputTooLargeError",
      "OutputUnwritableError",
      "PackageMissingError",
      "PartialBytesFullError",
      "PdkOutdatedError",
      "PluginForeignError",
      "PluginImportError",
      "PluginInvalidError",
      "PluginLoadFailedError",
      "PluginNameSharedError",
      "PluginTooComplexError",
      "PluginUnboundedError",
      "PluginUnreadableError",
      "PreconditionFailedError",
      "PrimaryGoneError",
      "ProcessEndedError",
      "ProcessSilentError",
      "ProcessStuckError",
      "ProcessesFailingError",
      "ProcessesNotSharedError",
      "ProjectNotMadeError",
      "PullNeverError",
      "QueueFullError",
      "QueueSlowError",
      "RangeNotSatisfiableError",
      "RateLimitedError",
      "RegistryRefusedError",
      "RegistryUnreachableError",
      "RequestRefusedError",
      "RequestTimeoutError",
      "RevisionMismatchError",
      "RouteConflictError",
      "RouteInvalidError",
      "RouteNotFoundError",
      "RuntimeUnfitError",
      "ScopeMissingError",
      "ScriptInvalidError",
      "ServerStartingError",
      "ShuttingDownError",
      "SignatureInvalidError",
      "SignatureMissingError",
      "SimplismBrokenError",
      "SmokeFailedError",
      "SourceInvalidError",
      "StateInvalidError",
      "StateUntrustedError",
      "StateUnwritableError",
      "StaticFolderError",
      "StoreDamagedError",
      "StoreExportInvalidError",
      "StoreFullError",
      "StoreInvalidError",
      "StoreNotEmptyError",
      "StoreUnavailableError",
      "StreamTimeoutError",
      "StreamsFullError",
      "ThreadsStuckError",
      "TlsInvalidError",
      "TokenRefusedError",
      "ToolArgumentsInvalidError",
      "ToolConflictError",
      "ToolExportMissingError",
      "ToolResultInvalidError",
      "ToolSchemaInvalidError",
      "TransferCodingError",
      "TrustInvalidError",
      "TrustPolicyMissingError",
      "UpgradeRequiredError",
      "UsageError",
      "VariablesFullError",
      "WasiDisabledError",
      "WebSocketOriginError",
      "WebSocketsFullError",
      "WorkerLostError",
      "checkServerOptions",
      "checkWasmServeOptions",
      "createServer",
      "loadPlugin",
      "problemsOf",
      "stuckThreads",
      "wasmServe",
      "wasmServeMcp",
    ]
  `)
})
