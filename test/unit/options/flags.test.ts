import { expect, test } from 'vitest'
import { readConfig, refuseUnknownVariables } from '../../../src/options/config.ts'
import { toData } from '../../../src/options/config-node.ts'
import { parseSize, parseTime } from '../../../src/options/flags.ts'

test.each([
  ['500', 500],
  ['500ms', 500],
  ['5s', 5_000],
  ['1.5s', 1_500],
  ['2 m', 120_000],
  ['1MIN', 60_000],
  ['1h', 3_600_000],
  ['30d', 2_592_000_000],
  ['-1', -1],
  ['0.5', undefined],
  ['1.0005s', undefined],
  ['5x', undefined],
  ['s', undefined],
  ['', undefined],
  ['1s2', undefined],
  ['1e3', undefined],
])('the time %j is %s ms', (text, ms) => {
  expect(parseTime(text)).toBe(ms)
})

test('times of flags and variables may have units', () => {
  const { flags, variables } = readConfig(['a.wasm', '--timeout', '5s'], { WASM_SERVE_GRACE_MS: '2m' })
  expect([toData(flags.route), toData(variables.server)]).toEqual([
    { timeoutMs: 5_000 },
    { graceMs: 120_000 },
  ])
})

test('what Kubernetes sets for a service of that name is no mistake', () => {
  const environment = {
    WASM_SERVE_SERVICE_HOST: '10.0.0.1',
    WASM_SERVE_SERVICE_PORT: '80',
    WASM_SERVE_SERVICE_PORT_HTTP: '80',
    WASM_SERVE_PORT_80_TCP: 'tcp://10.0.0.1:80',
    WASM_SERVE_PORT_80_TCP_ADDR: '10.0.0.1',
    WASM_SERVE_ADMIN_SERVICE_HOST: '10.0.0.2',
    WASM_SERVE_CHART_API_KEY_0: 'of the chart',
    WASM_SERVE_SOURCE_AUTH: 'Bearer a',
  }
  expect(() => refuseUnknownVariables(environment)).not.toThrow()
})

test('a variable that the config file uses is no mistake', () => {
  const environment = {
    WASM_SERVE_TIMOUT: '1',
    WASM_SERVE_TIMEOUT: '2',
    WASM_SERVE_PORT: '',
    WASM_SERVE_HOSTT: '',
  }
  expect(() => refuseUnknownVariables(environment, ['WASM_SERVE_TIMOUT'])).not.toThrow()
  expect(() => refuseUnknownVariables(environment)).toThrow('did you mean "WASM_SERVE_TIMEOUT"?')
})

test.each(['wasm-serve.yaml', 'a.yml', 'folder/wasm-serve.json'])('%s alone is a config file', (file) => {
  expect(readConfig([file], {})).toMatchObject({ configFile: file, words: [] })
  expect(readConfig([file, '8080'], {})).toMatchObject({ configFile: file, words: [] })
  expect(readConfig(['a.wasm', file], {})).toMatchObject({ configFile: undefined, words: ['a.wasm', file] })
})

test.each([
  ['0', 0],
  ['65536', 65_536],
  ['2b', 2],
  ['64KiB', 65_536],
  ['1.5 kb', 1_500],
  ['1MB', 1_000_000],
  ['2gb', 2_000_000_000],
  ['1TB', 1e12],
  ['1MiB', 1_048_576],
  ['1GiB', 1_073_741_824],
  ['1tib', 1_099_511_627_776],
  ['1.5', undefined],
  ['1XB', undefined],
  ['-1', undefined],
  ['', undefined],
])('the size %j is %s bytes', (text, bytes) => {
  expect(parseSize(text)).toBe(bytes)
})
