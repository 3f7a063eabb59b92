import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { expect, onTestFinished, test } from 'vitest'
import { parseReference, type Repository } from '../../src/plugin/oci/reference.ts'
import { openRegistry, type Registry } from '../../src/plugin/oci/registry.ts'
import { run, start } from '../support/cli-process.ts'
import { guest, guestBytes } from '../support/guest.ts'
import { startLoad } from '../support/load.ts'
import { digestOf, type OciRegistryOptions, openOciRegistry } from '../support/oci-registry.ts'
import { putPlugin, REGISTRY_NAME, signManifest } from '../support/registry-plugins.ts'
import { startDockerRegistry } from '../support/registry-server.ts'
import { makeKey } from '../support/signatures.ts'
import { tarOf } from '../support/tar.ts'
import { describeWith } from '../support/tools.ts'

const UPPER = guestBytes('upper')
const ECHO = guestBytes('echo')

function temporaryFolder(): string {
  const path = mkdtempSync(join(tmpdir(), 'wasm-serve-registry-'))
  onTestFinished(() => rmSync(path, { recursive: true, force: true }))
  return path
}

async function callAt(reference: string, ...flags: string[]) {
  return run(['call', reference, '-i', 'abc', '--cache-folder', temporaryFolder(), ...flags])
}

const MANIFEST = 'application/vnd.oci.image.manifest.v1+json'

/** The four shapes, as plain requests to a registry make them. */
const SHAPES: Readonly<Record<string, { config: string; layer: string; bytes: Uint8Array }>> = {
  cncf: { config: 'application/vnd.wasm.config.v0+json', layer: 'application/wasm', bytes: UPPER },
  oras: { config: 'application/vnd.acme.any+json', layer: 'application/wasm', bytes: UPPER },
  legacy: {
    config: 'application/vnd.wasm.config.v1+json',
    layer: 'application/vnd.wasm.content.layer.v1+wasm',
    bytes: UPPER,
  },
  image: {
    config: 'application/vnd.oci.image.config.v1+json',
    layer: 'application/vnd.oci.image.layer.v1.tar+gzip',
    bytes: gzipSync(tarOf({ name: 'plugin.wasm', content: UPPER })),
  },
}

async function pushShape(registry: Registry, repository: Repository, shape: string): Promise<string> {
  const { config, layer, bytes } = SHAPES[shape] ?? {}
  if (config === undefined || layer === undefined || bytes === undefined) throw new Error(`no shape ${shape}`)
  const settings = Buffer.from(
    '{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":[]}}',
  )
  const descriptor = async (mediaType: string, content: Uint8Array) => ({
    mediaType,
    digest: await registry.pushBlob(repository, content),
    size: content.length,
  })
  const manifest = {
    schemaVersion: 2,
    mediaType: MANIFEST,
    config: await descriptor(config, settings),
    layers: [await descriptor(layer, bytes)],
  }
  return registry.pushManifest(repository, shape, {
    bytes: Buffer.from(JSON.stringify(manifest)),
    mediaType: MANIFEST,
  })
}

describeWith(['docker-registry'], () => {
  test.each(Object.keys(SHAPES))('the shape %s is pulled from docker-registry', async (shape) => {
    const { host } = await startDockerRegistry()
    const reference = parseReference(`oci://${host}/acme/${shape}:${shape}`)
    if ('problem' in reference) throw new Error(reference.problem)
    const digest = await pushShape(openRegistry({ environment: {} }), reference, shape)
    expect(await callAt(`oci://${host}/acme/${shape}:${shape}`)).toMatchObject({ code: 0, stdout: 'ABC' })
    expect(await callAt(`oci://${host}/acme/${shape}@${digest}`)).toMatchObject({ code: 0, stdout: 'ABC' })
  })

  test('what push writes is pulled, by the printed digest', async () => {
    const { host } = await startDockerRegistry()
    const pushed = await run(['push', guest('upper'), `oci://${host}/acme/upper:1`])
    expect(pushed.code).toBe(0)
    expect(await callAt(pushed.stdout.trim())).toMatchObject({ code: 0, stdout: 'ABC' })
  })
})

/** The user `acme` with the password `sesame-123`. */
const HTPASSWD = 'acme:$2b$05$lYT8kt2SOMUfBTTOq/n6J.ikCy5GqhylBIaBQSkZbA1zvVlobxutG\n'

describeWith(['docker-registry'], () => {
  test('a password comes from the Docker configuration, and is in no message', async () => {
    const { host } = await startDockerRegistry(HTPASSWD)
    const folder = temporaryFolder()
    const logIn = (password: string) => {
      const auth = Buffer.from(`acme:${password}`).toString('base64')
      writeFileSync(join(folder, 'config.json'), JSON.stringify({ auths: { [host]: { auth } } }))
    }
    const env = { DOCKER_CONFIG: folder }
    const reference = `oci://${host}/acme/upper:1`
    logIn('sesame-123')
    expect(await run(['push', guest('upper'), reference], env)).toMatchObject({ code: 0, stderr: '' })
    const call = () => run(['call', reference, '-i', 'abc', '--cache-folder', temporaryFolder()], env)
    expect(await call()).toMatchObject({ code: 0, stdout: 'ABC' })
    logIn('wrong-0456')
    const refused = await call()
    expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining('WASM_SERVE_REGISTRY_REFUSED') })
    expect(refused.stderr).not.toMatch(/wrong|sesame|YWNtZ/)
    rmSync(join(folder, 'config.json'))
    expect((await call()).stderr).toContain('WASM_SERVE_REGISTRY_REFUSED')
  })
})

describeWith(['docker-registry', 'skopeo'], () => {
  test.each([
    'cncf',
    'image',
  ])('skopeo copies the shape %s, and it is pulled from the copy', async (shape) => {
    const [from, to] = [await startDockerRegistry(), await startDockerRegistry()]
    const reference = parseReference(`oci://${from.host}/acme/a:${shape}`)
    if ('problem' in reference) throw new Error(reference.problem)
    const digest = await pushShape(openRegistry({ environment: {} }), reference, shape)
    const flags = [
      '--src-tls-verify=false',
      '--dest-tls-verify=false',
      '--preserve-digests',
      '--insecure-policy',
    ]
    const copied = spawnSync(
      'skopeo',
      [
        ...flags.slice(3),
        'copy',
        ...flags.slice(0, 3),
        `docker://${from.host}/acme/a:${shape}`,
        `docker://${to.host}/b:1`,
      ],
      { encoding: 'utf8' },
    )
    expect([copied.status, copied.stderr]).toEqual([0, ''])
    expect(await callAt(`oci://${to.host}/b:1@${digest}`)).toMatchObject({ code: 0, stdout: 'ABC' })
  })
})

const MODULE_DIGEST = createHash('sha256').update(UPPER).digest('hex')
const isModule = (url = '') => url.endsWith(MODULE_DIGEST)

/** Faults of a registry: what it does, and the code of the error. */
const FAULTS: readonly (readonly [name: string, code: string, OciRegistryOptions['intercept']])[] = [
  [
    'a blob of other bytes',
    'DIGEST_MISMATCH',
    ({ url }, answer) => isModule(url) && sends(answer, Buffer.from(UPPER).fill(0, 8)),
  ],
  [
    'a short blob',
    'REGISTRY_REFUSED',
    ({ url }, answer) => isModule(url) && sends(answer, UPPER.subarray(0, 20)),
  ],
  ['no answer for a blob', 'DOWNLOAD_TIMEOUT', ({ url }) => isModule(url)],
  [
    'endless redirects',
    'REGISTRY_REFUSED',
    ({ url = '' }, answer) => isModule(url) && redirects(answer, url),
  ],
  [
    'an answer 401 each time',
    'REGISTRY_REFUSED',
    (_request, answer) => status(answer, 401, { 'www-authenticate': 'Basic realm="a"' }),
  ],
  [
    'an answer 429 that says wait an hour',
    'REGISTRY_UNREACHABLE',
    (_request, answer) => status(answer, 429, { 'retry-after': '3600' }),
  ],
  ['an answer 503 each time', 'REGISTRY_UNREACHABLE', (_request, answer) => status(answer, 503)],
]

function sends(answer: ServerResponse, bytes: Uint8Array): boolean {
  answer.writeHead(200, { 'content-length': bytes.length }).end(bytes)
  return true
}

function redirects(answer: ServerResponse, location: string): boolean {
  return status(answer, 307, { location })
}

function status(answer: ServerResponse, code: number, headers: Record<string, string> = {}): boolean {
  answer.writeHead(code, headers).end()
  return true
}

test.each(FAULTS)('%s is one line with %s', { timeout: 60_000 }, async (_, code, intercept) => {
  const registry = await openOciRegistry({ ...(intercept && { intercept }) })
  putPlugin(registry, UPPER, '1')
  const flags = ['--download-timeout-ms', '4000']
  const { code: exit, stdout, stderr } = await callAt(`oci://${registry.host}/${REGISTRY_NAME}:1`, ...flags)
  expect([exit, stdout]).toEqual([1, ''])
  expect(stderr).toContain(`WASM_SERVE_${code}`)
  expect(stderr.trimEnd().split('\n')).toHaveLength(1)
})

test('a layer that says 1 GiB is refused without a request, and a gzip bomb stops at the limit', async () => {
  const registry = await openOciRegistry()
  const layer = { mediaType: 'application/wasm', digest: digestOf('a'), size: 2 ** 30 }
  const config = registry.putBlob('{}', 'application/vnd.oci.empty.v1+json')
  registry.putManifest(
    'a/large',
    { schemaVersion: 2, mediaType: MANIFEST, config, layers: [layer] },
    MANIFEST,
    '1',
  )
  const large = await callAt(`oci://${registry.host}/a/large:1`)
  expect(large.stderr).toContain('WASM_SERVE_DOWNLOAD_TOO_LARGE')
  expect(registry.requests.filter(({ url }) => url.includes('/blobs/'))).toEqual([])

  const bomb = gzipSync(Buffer.alloc(64 * 2 ** 20))
  registry.putArtifact('a/bomb', { layers: [{ mediaType: 'application/wasm', bytes: bomb }] }, '1')
  const refused = await callAt(`oci://${registry.host}/a/bomb:1`, '--download-limit', '1MiB')
  expect(refused.stderr).toContain('WASM_SERVE_ARTIFACT_UNSUPPORTED')
})

test.each([
  ['an index of indexes', 'another index'],
  ['two modules', 'several modules'],
  ['a component', 'component'],
  ['a path out of the image', '..'],
])('%s is refused, and the message says why', async (kind, reason) => {
  const registry = await openOciRegistry()
  const wasm = (bytes: Uint8Array) => ({ mediaType: 'application/wasm', bytes })
  const tar = 'application/vnd.oci.image.layer.v1.tar'
  const index = () => registry.putIndex('a/b', [registry.putIndex('a/b', [])], '1')
  if (kind === 'an index of indexes') index()
  else if (kind === 'two modules') registry.putArtifact('a/b', { layers: [wasm(UPPER), wasm(ECHO)] }, '1')
  else if (kind === 'a component')
    registry.putArtifact('a/b', { layers: [wasm(Uint8Array.of(0, 97, 115, 109, 13, 0, 1, 0))] }, '1')
  else
    registry.putArtifact(
      'a/b',
      { layers: [{ mediaType: tar, bytes: tarOf({ name: '../../plugin.wasm', content: UPPER }) }] },
      '1',
    )
  const { code, stderr } = await callAt(`oci://${registry.host}/a/b:1`)
  expect([code, stderr]).toEqual([1, expect.stringContaining(reason)])
  expect(stderr).toContain('WASM_SERVE_ARTIFACT_UNSUPPORTED')
})

test(
  'following a tag under load loses no request of 100,000, and takes only what is signed',
  { timeout: 300_000 },
  async () => {
    const registry = await openOciRegistry()
    const key = makeKey()
    onTestFinished(() => key.close())
    const sign = (bytes: Uint8Array, isSigned = true) => {
      const stored = putPlugin(registry, bytes, '1', { at: `${performance.now()}` })
      if (isSigned) signManifest(registry, stored, key.privateKey)
      return stored
    }
    sign(ECHO)
    const server = start([
      ...[`oci://${registry.host}/${REGISTRY_NAME}:1`, '--port', '0', '--registry-poll-ms', '1000'],
      ...['--cache-folder', temporaryFolder(), '--trust', `${registry.host}/acme=${key.path}`],
    ])
    const url = await server.listening()
    const load = startLoad({
      url,
      connections: 20,
      body: (id) => `id ${id}`,
      isAnswer: (answer, body) => answer === body || answer === body.toUpperCase(),
    })
    const post = async () => (await fetch(url, { method: 'POST', body: 'abc' })).text()

    for (let change = 1; change <= 4; change++) {
      sign(change % 2 ? UPPER : ECHO)
      await server.logged('"changed"', change)
      expect(await post()).toBe(change % 2 ? 'ABC' : 'abc')
    }
    const unsigned = sign(UPPER, false)
    await server.logged('WASM_SERVE_SIGNATURE_MISSING')
    expect(await post()).toBe('abc')
    signManifest(registry, unsigned, key.privateKey)
    await server.logged('"changed"', 5)
    expect(await post()).toBe('ABC')
    expect(server.stderr()).toContain(`"to":"${unsigned.digest}"`)

    await load.answered(Math.max(1, 100_000 - load.counts.answers))
    expect(await load.stop()).toMatchObject({ wrong: 0, non2xx: 0, resets: 0, refused: 0 })
  },
)

test('a server starts from its cache while the registry is gone', async () => {
  const registry = await openOciRegistry()
  const key = makeKey()
  onTestFinished(() => key.close())
  const stored = putPlugin(registry, UPPER, '1')
  signManifest(registry, stored, key.privateKey)
  const args = [
    ...[`oci://${registry.host}/${REGISTRY_NAME}:1`, '--port', '0', '--cache-folder', temporaryFolder()],
    ...['--trust', `${registry.host}/acme=${key.path}`],
  ]
  const first = start(args)
  await first.listening()
  first.kill('SIGTERM')
  await first.ended
  await registry.close()
  const url = await start(args).listening()
  expect(await (await fetch(url, { method: 'POST', body: 'abc' })).text()).toBe('ABC')
})
