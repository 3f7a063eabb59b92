import { expect, test } from 'vitest'
import { OptionsError } from '../../../src/errors/errors.ts'
import { readConfig } from '../../../src/options/config.ts'
import { toData } from '../../../src/options/config-node.ts'
import { mergeConfig } from '../../../src/options/merge.ts'
import { checkWasmServeOptions, problemsOf, type RouteOptions } from '../../../src/options/options.ts'
import { resolveRoute } from '../../../src/options/resolved-route.ts'
import { loadPlugin, type Plugin } from '../../../src/plugin/plugin.ts'
import { run } from '../../support/cli.ts'
import { guest, guestBytes } from '../../support/guest.ts'
import { checkedRoute } from '../../support/route.ts'

const plugin = 'hello.wasm'

// Flags and variables.

const hostsOf = (argv: readonly string[], environment: Record<string, string> = {}) =>
  (toData(mergeConfig(readConfig([plugin, ...argv], environment)).route) as RouteOptions).allowedHosts

test('--allow-host is given again and again', () => {
  expect(hostsOf([])).toBeUndefined()
  expect(hostsOf(['--allow-host', 'a.com', '--allow-host=*.b.com:80'])).toEqual(['a.com', '*.b.com:80'])
})

test.each([
  ['a.com', ['a.com']],
  ['a.com, *.b.com,[::1]:80', ['a.com', '*.b.com', '[::1]:80']],
  ['[::1],a.com', ['[::1]', 'a.com']],
  ['["a.com", "b.com"]', ['a.com', 'b.com']],
  [' [] ', []],
])('the variable can hold %s', (text, hosts) => {
  expect(hostsOf([], { WASM_SERVE_ALLOW_HOST: text })).toEqual(hosts)
})

test('flags replace what the variable allows', () => {
  expect(hostsOf(['--allow-host', 'a.com'], { WASM_SERVE_ALLOW_HOST: 'b.com' })).toEqual(['a.com'])
})

test.each([
  ['a host that is none', ['--allow-host', 'ftp://a.com'], {}, '--allow-host: "ftp://a.com" must use http'],
  ['a flag without its host', ['--allow-host'], {}, '--allow-host: needs a value'],
  ['a variable that is no JSON', [], { WASM_SERVE_ALLOW_HOST: '["a.com"' }, 'WASM_SERVE_ALLOW_HOST: must be'],
  [
    'a variable with a number',
    [],
    { WASM_SERVE_ALLOW_HOST: '["a.com", 1]' },
    'WASM_SERVE_ALLOW_HOST: must be',
  ],
  [
    'a variable with an empty host',
    [],
    { WASM_SERVE_ALLOW_HOST: 'a.com,' },
    'WASM_SERVE_ALLOW_HOST: "" is not a host',
  ],
])('%s ends the command with a message and exit 2', async (_, args, env, said) => {
  const { code, stderr } = await run([guest('echo'), '0', ...args], env)
  expect(code).toBe(2)
  expect(stderr).toContain(said)
})

// Options.

function problemsIn(allowedHosts: unknown): readonly string[] {
  try {
    checkWasmServeOptions({ routes: [{ plugin, allowedHosts }] })
  } catch (error) {
    if (error instanceof OptionsError)
      return problemsOf(error).map(({ option, message }) => `${option}: ${message}`)
    throw error
  }
  return []
}

test('each wrong host is listed with what is wrong', () => {
  expect(problemsIn(['a.com', '*', 'https://b.com:8443', '[::1]'])).toEqual([])
  expect(problemsIn(['a.com', '::1', 7, 'a.com:0'])).toEqual([
    'routes[0].allowedHosts[1]: "::1" must have its IPv6 address in brackets',
    'routes[0].allowedHosts[2]: must be text: put it in quotes',
    'routes[0].allowedHosts[3]: "a.com:0" must have a port from 1 to 65535',
  ])
  expect(problemsIn('a.com')).toEqual(['routes[0].allowedHosts: must be a list: put it in [ ]'])
})

test('the check that is built says the same of a host', async () => {
  const built = await import(new URL('../../../dist/index.js', import.meta.url).href)
  const options = { routes: [{ plugin, allowedHosts: ['a.com/path'] }] }
  expect(() => built.checkWasmServeOptions(options)).toThrowError(/"a\.com\/path" is not a host/)
  expect(built.checkWasmServeOptions({ routes: [{ plugin, allowedHosts: ['a.com'] }] })).toMatchObject({
    routes: [{ allowedHosts: ['a.com'] }],
  })
})

// Options and the manifest.

const outboundOf = (options: Partial<RouteOptions>, plugin: Pick<Plugin, 'settings'>) =>
  resolveRoute(checkedRoute(options), { name: 'guest', ...plugin }).outbound

const manifested = (settings: object): Promise<Plugin> =>
  loadPlugin({ wasm: [{ data: guestBytes('echo') }], ...settings })

test('a tool made for hyper-mcp has time to wait for the hosts that it may reach, unless its deadline is given', async () => {
  const route = checkedRoute({ allowedHosts: ['a.com'] })
  const deadlineOf = async (options: object, settings: object = {}) =>
    resolveRoute({ ...route, ...options }, await manifested(settings)).deadline.ms
  const contract = { contract: 'hyper-mcp' }
  expect(await deadlineOf({})).toBe(1_000)
  expect(await deadlineOf(contract)).toBe(30_000)
  expect(await deadlineOf({ ...contract, allowedHosts: undefined })).toBe(1_000)
  expect(await deadlineOf({ ...contract, allowedHosts: undefined }, { allowed_hosts: ['a.com'] })).toBe(
    30_000,
  )
  expect(await deadlineOf({ ...contract, timeoutMs: 7 })).toBe(7)
  expect(await deadlineOf(contract, { timeout_ms: 8 })).toBe(8)
})

test('without hosts there is no way out', async () => {
  expect(outboundOf({}, await manifested({}))).toBeUndefined()
  expect(outboundOf({}, await manifested({ allowed_hosts: [] }))).toBeUndefined()
  expect(outboundOf({}, await loadPlugin(guestBytes('echo')))).toBeUndefined()
})

test("the manifest's hosts and limit count if the route has none", async () => {
  const memory = { max_http_response_bytes: 7 }
  const settings = await manifested({ allowed_hosts: ['a.com'], memory })
  expect(outboundOf({}, settings)).toEqual({
    allowedHosts: ['a.com'],
    opensPrivate: true,
    responseMax: 7,
    streamMax: 7,
  })
  expect(outboundOf({ httpResponseMax: 8 }, settings)?.responseMax).toBe(8)
  expect(outboundOf({}, await manifested({ allowed_hosts: ['a.com'] }))?.responseMax).toBe(52_428_800)
})

test('only the option lifts the limit of a streamed response', async () => {
  const memory = { max_http_response_bytes: 0 }
  const settings = await manifested({ allowed_hosts: ['a.com'], memory })
  expect(outboundOf({}, settings)).toMatchObject({ responseMax: 0, streamMax: 0 })
  const lifted = { responseMax: 0, streamMax: Number.POSITIVE_INFINITY }
  expect(outboundOf({ httpResponseMax: 0 }, settings)).toMatchObject(lifted)
})

test("the route's hosts replace the manifest's, even by none", async () => {
  const settings = await manifested({ allowed_hosts: ['a.com'] })
  expect(outboundOf({ allowedHosts: ['b.com'] }, settings)?.allowedHosts).toEqual(['b.com'])
  expect(outboundOf({ allowedHosts: [] }, settings)).toBeUndefined()
})

test('a manifest of the network opens no private address, unless the route names the host', async () => {
  const { settings } = await manifested({ allowed_hosts: ['a.com'] })
  if (!settings) throw new Error('no settings')
  const remote = { settings: { ...settings, isRemote: true } }
  expect(outboundOf({}, remote)?.opensPrivate).toBe(false)
  expect(outboundOf({ allowedHosts: ['a.com'] }, remote)?.opensPrivate).toBe(true)
})
