import { expect, test } from 'vitest'
import type { Edits, Version } from '../../../src/deploy/edits.ts'
import { parseState, renderState } from '../../../src/deploy/state-json.ts'

const [FIRST, SECOND, THIRD] = ['1', '2', '3'].map((digit) => digit.repeat(64)) as [string, string, string]

const version = (digest: string, more: Partial<Version> = {}): Version => ({
  digest,
  name: 'hello.wasm',
  from: 'upload',
  addedAt: '2026-01-02T03:04:05.678Z',
  modules: [
    {
      name: 'main',
      digest,
      bytes: 10,
      signer: 'me',
      attestations: ['a'],
      place: 'oci://a/b',
      bundle: SECOND,
    },
    { name: 'lib', digest: SECOND, bytes: 0 },
  ],
  companions: { xtpSchema: 'a', smoke: '{}' },
  settings: {
    isRemote: true,
    memory: { maxPages: 1, maxHttpResponseBytes: 0, maxVarBytes: 0 },
    timeoutMs: 0,
    config: { a: 'b' },
    allowedHosts: ['*.example.com'],
    allowedPaths: [],
  },
  ...more,
})

const LOCAL = version(FIRST, {
  from: 'file',
  settings: {
    isRemote: false,
    memory: { maxPages: 65_536, maxHttpResponseBytes: undefined, maxVarBytes: undefined },
    timeoutMs: 2_147_483_647,
    config: {},
    allowedHosts: undefined,
    allowedPaths: [{ host: '/srv', guest: '/data', readOnly: true }],
  },
})

const EDITS: Edits = {
  plugins: new Map([
    [
      'hello',
      {
        added: true,
        versions: [LOCAL, version(SECOND), version(THIRD)],
        traffic: [
          { digest: FIRST, percent: 99 },
          { digest: SECOND, percent: 1 },
        ],
        over: THIRD,
      },
    ],
  ]),
  routes: new Map([
    ['a', { options: { plugin: 'hello', url: '/a', contract: 'http' } }],
    ['b', { options: undefined }],
  ]),
}

test('what was stored is read as it was', () => {
  expect(parseState(renderState(EDITS))).toEqual(EDITS)
})

test.each<[path: string, value: unknown, problem?: string]>([
  ['format', 2],
  ['plugins', {}],
  ['plugins.0.name', 1],
  ['plugins.0.added', 'true'],
  ['plugins.0.over', 'x'],
  ['plugins.0.traffic.0.digest', '4'.repeat(64)],
  ['plugins.0.traffic.0.percent', 0],
  ['plugins.0.traffic.0.percent', 101],
  ['plugins.0.traffic.2', { digest: THIRD, percent: 1 }, 'plugins[0].traffic'],
  ['plugins.0.versions.0.from', 'network'],
  ['plugins.0.versions.0.digest', 'x'],
  ['plugins.0.versions.0.name', undefined],
  ['plugins.0.versions.0.addedAt', 1],
  ['plugins.0.versions.0.modules.1.name', 'main', 'plugins[0].versions[0].modules'],
  ['plugins.0.versions.0.modules.0.name', 'other', 'plugins[0].versions[0].modules'],
  ['plugins.0.versions.0.modules.1.name', 'extism:host/env'],
  ['plugins.0.versions.0.modules.0.bytes', -1],
  ['plugins.0.versions.0.modules.0.bundle', 'x'],
  ['plugins.0.versions.0.modules.0.attestations', 'a'],
  ['plugins.0.versions.0.settings.timeoutMs', 2_147_483_648],
  ['plugins.0.versions.0.settings.timeoutMs', -1],
  ['plugins.0.versions.0.settings.memory.maxPages', 0],
  ['plugins.0.versions.0.settings.memory.maxPages', 65_537],
  ['plugins.0.versions.0.settings.memory.maxVarBytes', 1.5],
  ['plugins.0.versions.0.settings.config.a', 1],
  ['plugins.0.versions.0.settings.allowedHosts', ['a b'], 'plugins[0].versions[0].settings.allowedHosts[0]'],
  ['plugins.0.versions.0.settings.allowedPaths.0.host', 'srv'],
  ['plugins.0.versions.0.settings.allowedPaths.0.readOnly', undefined],
  ['plugins.0.versions.1.settings.isRemote', false],
  ['plugins.0.versions.1.settings.allowedPaths', [{ host: '/srv', guest: '/', readOnly: true }]],
  ['plugins.0.versions.1.companions.smoke', {}],
  ['routes.0.id', 1],
  ['routes.0.options.plugin', 1],
  ['routes.0.options.contract', {}],
  ['routes.0.options.allowedPaths', { '/': '/' }],
  ['routes.0.options', []],
])('a state whose %s is %j is refused, and the place is named', (path, value, problem) => {
  const state = JSON.parse(renderState(EDITS))
  const steps = path.split('.')
  const last = steps.pop() ?? ''
  const parent = steps.reduce((at, step) => at[step], state)
  parent[last] = value
  const place = path.replace(/\.(\d+)/g, '[$1]')
  const said = path === 'format' ? 'its format' : (problem ?? place)
  expect(parseState(JSON.stringify(state))).toEqual({ problem: expect.stringContaining(said) })
})

test('text that is no JSON is refused', () => {
  expect(parseState('{')).toEqual({ problem: expect.any(String) })
})
