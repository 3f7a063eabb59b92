import fc from 'fast-check'
import { expect, test } from 'vitest'
import { desiredState } from '../../../src/deploy/desired-state.ts'
import { NO_EDITS } from '../../../src/deploy/edits.ts'
import { readShared } from '../../../src/deploy/fleet/open-fleet.ts'
import { withOwnOptions } from '../../../src/deploy/fleet/own-options.ts'
import { parseShared, renderShared } from '../../../src/deploy/fleet/shared-configuration.ts'
import { PluginTable } from '../../../src/deploy/loader.ts'
import { Secrets } from '../../../src/observe/log/secrets.ts'
import { readConfig } from '../../../src/options/config.ts'
import { nodeAt, originAt, renderOrigin, toData } from '../../../src/options/config-node.ts'
import { file, guest } from '../../support/guest.ts'
import { runs } from '../../support/runs.ts'

/** What `fleet apply` stores of a config file, on a machine with these variables. */
async function shared(text: string, environment: Record<string, string> = {}, argv: string[] = []) {
  const path = file('wasm-serve.yaml', text)
  const context = { environment, secrets: new Secrets(), commands: {} }
  const config = readConfig(['-c', path, ...argv], environment)
  const state = await readShared(config, context, new PluginTable(), NO_EDITS)
  return { text: renderShared(state.configuration), config }
}

function parse(text: string, environment: Record<string, string> = {}) {
  const secrets = new Secrets()
  const found = parseShared(text, { environment, secrets, variables: Object.keys(environment) })
  if ('problem' in found) throw new Error(found.problem)
  return { ...found, secrets }
}

const yaml = (more = '') => `
port: 7000
accessLog: true
defaults:
  timeoutMs: \${LIMIT}
routes:
  - url: /echo
    plugin: ${guest('echo')}
    config: { key: '\${SECRET}', plain: 'a b' }
${more}`

test('what a node reads is what an operator wrote, with its lines', async () => {
  const { text } = await shared(yaml(), { LIMIT: '50', SECRET: 'of the operator' })
  const { routes, server, file: path } = parse(text, { LIMIT: '75', SECRET: 'of the node' })
  expect(routes.map(({ configured }) => toData(configured))).toEqual([
    {
      url: '/echo',
      plugin: expect.stringContaining('echo.wasm'),
      config: { key: 'of the node', plain: 'a b' },
      timeoutMs: 75,
    },
  ])
  expect(toData(server)).toEqual({ accessLog: true }) // the port is each node's own
  const [route] = routes
  if (!route) throw new Error('there is no route')
  expect(renderOrigin(originAt(route.configured, ['config', 'key']))).toBe(`${path}:9:20`)
})

test('the value of a variable is not stored', async () => {
  const { text } = await shared(yaml(), { LIMIT: '50', SECRET: 'of the operator' })
  expect(text).not.toContain('of the operator')
  expect(text).toContain(`\${SECRET}`)
})

test('a value is masked in the logs of a node', async () => {
  const { text } = await shared(yaml(), { LIMIT: '50', SECRET: 'x' })
  const { secrets } = parse(text, { LIMIT: '75', SECRET: 'of the node' })
  expect(secrets.hide('it is of the node')).toBe(`it is \${SECRET}`)
  expect(secrets.hide('75')).toBe('75')
})

test('a missing or wrong variable of a node is a problem that names its line', async () => {
  const { text } = await shared(yaml(), { LIMIT: '50', SECRET: 'x' })
  const problem = (environment: Record<string, string>) =>
    parseShared(text, { environment, secrets: new Secrets(), variables: ['LIMIT', 'SECRET'] })
  expect(problem({ LIMIT: '1' })).toEqual({
    problem: expect.stringMatching(/wasm-serve\.yaml:9:20: the environment variable SECRET is not set$/),
  })
  expect(problem({ LIMIT: 'much', SECRET: 'x' })).toEqual({ problem: expect.stringContaining(':5:14') })
})

test('flags and variables stay with their node, and apply to all routes there', async () => {
  const { text } = await shared(yaml(), { LIMIT: '50', SECRET: 'x', WASM_SERVE_LOG_LEVEL: 'debug' }, [
    '--timeout',
    '99',
  ])
  expect(text).not.toContain('99')
  const node = readConfig(['--timeout', '5', '--port', '1', '--log-level', 'debug'], {})
  const own = { file: undefined, server: node.flags.server, load: node.flags.load }
  const { routes, server, defaults } = withOwnOptions(
    parse(text, { LIMIT: '75', SECRET: 'y' }),
    own,
    node,
    {},
  )
  expect(routes.map(({ configured }) => toData(nodeAt(configured, ['timeoutMs']) ?? configured))).toEqual([5])
  expect(toData(server)).toEqual({ accessLog: true, logLevel: 'debug', port: 1 })
  expect(toData(defaults.route)).toEqual({ timeoutMs: 5 })
})

test('a configuration from the command line has its plug-ins', async () => {
  const context = { environment: {}, secrets: new Secrets(), commands: {} }
  const config = readConfig([guest('echo'), '--port', '0'], {})
  const { configuration } = await readShared(config, context, new PluginTable(), NO_EDITS)
  const read = parse(renderShared(configuration))
  expect(read.routes).toEqual(configuration.routes)
  const edits = desiredState({ ...configuration, ...read }, NO_EDITS, 1).edits
  expect([...edits.plugins.keys()]).toEqual(['echo'])
})

test('a part of a text that is missing or of another kind is named', async () => {
  const { text } = await shared(yaml(), { LIMIT: '50', SECRET: 'x' })
  for (const name of ['origins', 'routes', 'defaults', 'server']) {
    const damaged = JSON.stringify({ ...JSON.parse(text), [name]: 7 })
    expect(parseShared(damaged, undefined)).toEqual({ problem: expect.stringMatching(`^${name}\\b`) })
  }
})

test('a damaged text is a problem, and never an exception', async () => {
  const { text } = await shared(yaml(), { LIMIT: '50', SECRET: 'x' })
  const environment = { LIMIT: '50', SECRET: 'x' }
  const context = { environment, secrets: new Secrets(), variables: Object.keys(environment) }
  const damage = fc.tuple(fc.nat({ max: text.length - 1 }), fc.nat({ max: 3 }), fc.string({ maxLength: 3 }))
  fc.assert(
    fc.property(damage, ([at, length, by]) => {
      const damaged = text.slice(0, at) + by + text.slice(at + length)
      const found = parseShared(damaged, context)
      expect('problem' in found || Array.isArray(found.routes)).toBe(true)
    }),
    { numRuns: runs(300) },
  )
  fc.assert(
    fc.property(fc.json(), (json) => {
      expect(parseShared(json, context)).toHaveProperty('problem')
    }),
    { numRuns: runs(100) },
  )
})
