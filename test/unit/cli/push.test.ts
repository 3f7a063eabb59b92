import { expect, test } from 'vitest'
import { run } from '../../support/cli.ts'
import { guest } from '../../support/guest.ts'
import { openOciRegistry } from '../../support/oci-registry.ts'

/** A plug-in that is pushed in this environment: its registry and its manifest. */
async function push(environment: Record<string, string>, ...words: string[]) {
  const remote = await openOciRegistry()
  const none = { GITHUB_SERVER_URL: undefined, GITHUB_REPOSITORY: undefined, GITHUB_SHA: undefined }
  const target = `oci://${remote.host}/team/hello:1.2`
  const { code, stdout, stderr } = await run(['push', guest('echo'), target, '--json', ...words], {
    ...none,
    SOURCE_DATE_EPOCH: '1',
    ...environment,
  })
  expect([code, stderr]).toEqual([0, ''])
  const manifest = JSON.parse(
    Buffer.from(remote.manifest('team/hello', JSON.parse(stdout).digest) ?? '').toString(),
  )
  return { remote, manifest }
}

/** The annotations of OCI of a plug-in that is pushed in this environment. */
async function annotationsIn(environment: Record<string, string>, ...words: string[]) {
  const { annotations } = (await push(environment, ...words)).manifest
  const name = 'org.opencontainers.image.'
  return Object.fromEntries(
    Object.entries(annotations).flatMap(([key, value]) =>
      key.startsWith(name) ? [[key.slice(name.length), value]] : [],
    ),
  )
}

const SERVER = { GITHUB_SERVER_URL: 'https://github.example' }
const REPOSITORY = { GITHUB_REPOSITORY: 'team/hello' }
const COMMIT = { GITHUB_SHA: 'abc' }
const PUSHED = { created: '1970-01-01T00:00:01.000Z', version: '1.2' }

test.each<[string, Record<string, string>, string[], object]>([
  ['nothing', {}, [], {}],
  ['the server of GitHub alone', SERVER, [], {}],
  ['the repository alone', REPOSITORY, [], {}],
  [
    'a job of GitHub',
    { ...SERVER, ...REPOSITORY, ...COMMIT },
    [],
    { source: 'https://github.example/team/hello', revision: 'abc' },
  ],
  [
    'a job of GitLab',
    { CI_PROJECT_URL: 'https://gitlab.example/a', CI_COMMIT_SHA: 'def' },
    [],
    { source: 'https://gitlab.example/a', revision: 'def' },
  ],
  [
    'flags, which win',
    { ...SERVER, ...REPOSITORY, ...COMMIT },
    ['--source', 'https://a.example', '--revision', '7'],
    { source: 'https://a.example', revision: '7' },
  ],
])('an artifact has the origin that is known by %s', async (_, environment, words, expected) => {
  expect(await annotationsIn(environment, ...words)).toEqual({ ...PUSHED, ...expected })
})

test('the config of an artifact is as the layout of the CNCF says', async () => {
  const { remote, manifest } = await push({})
  expect(JSON.parse(Buffer.from(remote.blob(manifest.config.digest) ?? '').toString())).toEqual({
    created: PUSHED.created,
    architecture: 'wasm',
    os: 'wasip1',
    layerDigests: [manifest.layers[0].digest],
  })
})
