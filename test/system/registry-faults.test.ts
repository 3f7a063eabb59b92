import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { gzipSync } from 'node:zlib'
import { expect, onTestFinished, test } from 'vitest'
import type { Run } from '../support/cli.ts'
import { run } from '../support/cli-process.ts'
import { guest, guestBytes } from '../support/guest.ts'
import {
  digestOf,
  type OciRegistry,
  type OciRegistryOptions,
  openOciRegistry,
} from '../support/oci-registry.ts'
import { REGISTRY_NAME as NAME, putPlugin } from '../support/registry-plugins.ts'
import { OCI_MANIFEST } from '../support/registry-shapes.ts'
import { paxOf, tarEntry, tarOf, type WrittenEntry } from '../support/tar.ts'

/* Registries that fail or attack: the command prints one line with a code, in bounded time and memory. */

const UPPER = guestBytes('upper')
const ECHO = guestBytes('echo')
const MIB = 2 ** 20
const TIMEOUT_MS = 4_000

type Intercept = NonNullable<OciRegistryOptions['intercept']>

function temporaryFolder(): string {
  const path = mkdtempSync(join(tmpdir(), 'wasm-serve-faults-'))
  onTestFinished(() => rmSync(path, { recursive: true, force: true }))
  return path
}

/** Calls `acme/hello:1` by the command, in a process that reports the most memory that it used. */
async function call({ host }: OciRegistry, { flags = [], env = {} }: CallOptions = {}) {
  const folder = temporaryFolder()
  const report = join(folder, 'report.mjs')
  const peak = join(folder, 'peak')
  writeFileSync(
    report,
    `import { writeFileSync } from 'node:fs'
    process.on('exit', () => writeFileSync(${JSON.stringify(peak)}, String(process.resourceUsage().maxRSS)))`,
  )
  const ended = await run(
    [
      ...['call', `oci://${host}/${NAME}:1`, '-i', 'abc', '--cache-folder', join(folder, 'cache')],
      ...['--download-timeout-ms', String(TIMEOUT_MS), ...flags],
    ],
    { DOCKER_CONFIG: folder, ...env },
    { program: [process.execPath, '--import', pathToFileURL(report).href] },
  )
  return { ...ended, peakBytes: Number(readFileSync(peak, 'utf8')) * 1_024 }
}

interface CallOptions {
  readonly flags?: readonly string[]
  readonly env?: NodeJS.ProcessEnv
}

async function expectRefusal(registry: OciRegistry, code: string, options?: CallOptions) {
  const ended = await call(registry, options)
  expectOneLine(ended, code)
  return ended
}

function expectOneLine(ended: Run, code: string): void {
  const exitCode = code === 'DOWNLOAD_TOO_LARGE' ? 2 : 1 // the limit is an option
  expect([ended.code, ended.signal, ended.stdout]).toEqual([exitCode, null, ''])
  expect(ended.stderr).toContain(`WASM_SERVE_${code}`)
  expect(ended.stderr.trimEnd()).toMatch(/^[^\n\p{Cc}]+$/u) // one line, so without a stack trace, and without escape sequences
}

/** A folder with a Docker configuration that has a password for a registry. */
function logIn(host: string): NodeJS.ProcessEnv {
  const folder = temporaryFolder()
  const auth = Buffer.from('acme:sesame-123').toString('base64')
  writeFileSync(join(folder, 'config.json'), JSON.stringify({ auths: { [host]: { auth } } }))
  return { DOCKER_CONFIG: folder }
}

const BLOB = digestOf(UPPER)
const isBlob = ({ url = '' }: IncomingMessage) => url.endsWith(BLOB)
const isManifest = ({ url = '', method }: IncomingMessage) => url.includes('/manifests/') && method === 'GET'

function sends(answer: ServerResponse, bytes: Uint8Array, headers: Record<string, string> = {}): boolean {
  answer.writeHead(200, { 'content-length': bytes.length, ...headers }).end(bytes)
  return true
}

function status(
  answer: ServerResponse,
  code: number,
  headers: Record<string, string> = {},
  body = '',
): boolean {
  answer.writeHead(code, headers).end(body)
  return true
}

/** Sends pieces until the client leaves. @param ms - Between two pieces. */
function trickles(answer: ServerResponse, piece: Uint8Array, ms: number): boolean {
  const timer = setInterval(() => answer.write(piece), ms)
  answer.on('close', () => clearInterval(timer))
  return true
}

/** 1 GiB of zeros, packed: as several members of a gzip file. */
const GIBIBYTE = Buffer.concat(Array<Buffer>(64).fill(gzipSync(Buffer.alloc(16 * MIB))))

const FAULTS: Readonly<Record<string, readonly [code: string, intercept: Intercept]>> = {
  'a blob of other bytes': [
    'DIGEST_MISMATCH',
    (request, answer) => isBlob(request) && sends(answer, Buffer.from(UPPER).fill(0, 8)),
  ],
  'a short blob': [
    'REGISTRY_REFUSED',
    (request, answer) => isBlob(request) && sends(answer, UPPER.subarray(0, 20)),
  ],
  'a long blob': [
    'REGISTRY_REFUSED',
    (request, answer) => isBlob(request) && sends(answer, Buffer.concat([UPPER, UPPER])),
  ],
  'a blob without an end': [
    'REGISTRY_REFUSED',
    (request, answer) => isBlob(request) && trickles(answer, Buffer.alloc(MIB), 1),
  ],
  'a blob in a content coding that was not asked for, which is a bomb': [
    'REGISTRY_REFUSED',
    (request, answer) => isBlob(request) && sends(answer, GIBIBYTE, { 'content-encoding': 'gzip' }),
  ],
  'a blob that breaks off each time': [
    'REGISTRY_UNREACHABLE',
    (request, answer) => {
      if (!isBlob(request)) return false
      answer.writeHead(200, { 'content-length': UPPER.length })
      answer.write(UPPER.subarray(0, 20), () => answer.destroy())
      return true
    },
  ],
  'a blob that arrives byte by byte': [
    'DOWNLOAD_TIMEOUT',
    (request, answer) => isBlob(request) && trickles(answer, Buffer.of(0), 1_000),
  ],
  'no answer for a blob': ['DOWNLOAD_TIMEOUT', (request) => isBlob(request)],
  'a manifest of other bytes': [
    'DIGEST_MISMATCH',
    (request, answer) => isManifest(request) && sends(answer, Buffer.from('{}')),
  ],
  'a manifest without an end': [
    'DOWNLOAD_TOO_LARGE',
    (request, answer) => isManifest(request) && trickles(answer, Buffer.alloc(MIB), 1),
  ],
  'endless redirects': [
    'REGISTRY_REFUSED',
    (request, answer) => isBlob(request) && status(answer, 307, { location: request.url ?? '' }),
  ],
  'a redirect to a file': [
    'REGISTRY_REFUSED',
    (request, answer) => isBlob(request) && status(answer, 307, { location: 'file:///etc/passwd' }),
  ],
  'a redirect to another host without TLS': [
    'REGISTRY_REFUSED',
    (request, answer) =>
      isBlob(request) && status(answer, 307, { location: 'http://169.254.169.254/latest/' }),
  ],
  'an answer 401 each time': [
    'REGISTRY_REFUSED',
    (_request, answer) => status(answer, 401, { 'www-authenticate': 'Basic realm="a"' }),
  ],
  'a token server on another host without TLS': [
    'REGISTRY_REFUSED',
    (_request, answer) =>
      status(answer, 401, { 'www-authenticate': 'Bearer realm="http://169.254.169.254/token",service="a"' }),
  ],
  'a token that is accepted nowhere': [
    'REGISTRY_REFUSED',
    ({ url = '', headers }, answer) =>
      url.startsWith('/token')
        ? sends(answer, Buffer.from('{"token":"a"}'))
        : status(answer, 401, {
            'www-authenticate': `Bearer realm="http://${headers.host}/token",service="a"`,
          }),
  ],
  'an answer 429 that says wait an hour': [
    'REGISTRY_UNREACHABLE',
    (_request, answer) => status(answer, 429, { 'retry-after': '3600' }),
  ],
  'an answer 503 each time': ['REGISTRY_UNREACHABLE', (_request, answer) => status(answer, 503)],
  'an error that writes to the terminal': [
    'REGISTRY_REFUSED',
    (request, answer) =>
      isManifest(request) &&
      status(
        answer,
        403,
        { 'content-type': 'application/json' },
        JSON.stringify({
          errors: [{ code: 'DENIED', message: '\x1b[2J\x1b]0;a\x07\r\nError: b\n    at c' }],
        }),
      ),
  ],
}

test.each(Object.entries(FAULTS))('%s is one line with a code', async (_, [code, intercept]) => {
  const registry = await openOciRegistry({ intercept })
  putPlugin(registry, UPPER, '1')
  const { stderr } = await expectRefusal(registry, code, { env: logIn(registry.host) })
  expect(stderr).not.toMatch(/sesame|YWNtZ/)
  expect(registry.requests.length).toBeLessThan(30)
})

test('an answer 429 is repeated after the time that it says', async () => {
  const times: number[] = []
  const registry = await openOciRegistry({
    intercept(request, answer) {
      if (!isBlob(request)) return false
      times.push(performance.now())
      return times.length === 1 && status(answer, 429, { 'retry-after': '1' })
    },
  })
  putPlugin(registry, UPPER, '1')
  expect(await call(registry)).toMatchObject({ code: 0, stdout: 'ABC', stderr: '' })
  const [first = 0, second = 0] = times
  expect(second - first).toBeGreaterThan(990)
})

test('a tag whose digest is a path: the digest of the manifest is used', async () => {
  const registry = await openOciRegistry({
    intercept: ({ method }, answer) =>
      method === 'HEAD' && status(answer, 200, { 'docker-content-digest': 'sha256:../../../etc/passwd' }),
  })
  putPlugin(registry, UPPER, '1')
  expect(await call(registry)).toMatchObject({ code: 0, stdout: 'ABC', stderr: '' })
  expect(registry.requests.map(({ url }) => url).join(' ')).not.toContain('passwd')
})

test('a redirect to another origin is followed, without the password', async () => {
  const store = await openOciRegistry()
  const registry = await openOciRegistry({
    auth: { scheme: 'basic', username: 'acme', password: 'sesame-123' },
    intercept: (request, answer) =>
      isBlob(request) && status(answer, 307, { location: `http://${store.host}${request.url}` }),
  })
  putPlugin(registry, UPPER, '1')
  store.putBlob(UPPER)
  expect(await call(registry, { env: logIn(registry.host) })).toMatchObject({ code: 0, stdout: 'ABC' })
  expect(registry.requests.filter(({ headers }) => headers.authorization !== undefined)).not.toEqual([])
  expect(store.requests.map(({ headers }) => headers.authorization)).toEqual([undefined])
})

const wasm = (bytes: Uint8Array) => ({ mediaType: 'application/wasm', bytes })
const layer = (bytes: Uint8Array) => ({ mediaType: 'application/vnd.oci.image.layer.v1.tar+gzip', bytes })

function putImage(registry: OciRegistry, ...entries: readonly (WrittenEntry | Uint8Array)[]): void {
  registry.putArtifact(NAME, { layers: [layer(gzipSync(tarOf(...entries)))] }, '1')
}

test('a layer that says 1 GiB is refused without a request for it', async () => {
  const registry = await openOciRegistry()
  const large = { mediaType: 'application/wasm', digest: digestOf('a'), size: 2 ** 30 }
  const config = registry.putBlob('{}', 'application/vnd.oci.empty.v1+json')
  registry.putManifest(NAME, { schemaVersion: 2, config, layers: [large] }, OCI_MANIFEST, '1')
  await expectRefusal(registry, 'DOWNLOAD_TOO_LARGE')
  const image = { ...large, mediaType: 'application/vnd.oci.image.layer.v1.tar', size: 100 * MIB }
  registry.putManifest(NAME, { schemaVersion: 2, config, layers: [image, image, image] }, OCI_MANIFEST, '1')
  await expectRefusal(registry, 'ARTIFACT_UNSUPPORTED')
  expect(registry.requests.filter(({ url }) => url.includes('/blobs/'))).toEqual([])
})

/** An archive with a file of 1 GiB. */
const archiveWith = (name: string) =>
  layer(Buffer.concat([gzipSync(tarEntry({ name, size: '10000000000\0' })), GIBIBYTE]))

test.each([
  ['a module', wasm(GIBIBYTE)],
  ['a module in an image', archiveWith('plugin.wasm')],
  ['another file in an image', archiveWith('data.bin')],
])('%s that unpacks to 1 GiB stops at the limit, without the memory for it', async (_, bomb) => {
  const registry = await openOciRegistry()
  putPlugin(registry, UPPER, '1')
  const { peakBytes } = await call(registry)
  registry.putArtifact(NAME, { layers: [bomb] }, '1')
  const refused = await expectRefusal(registry, 'ARTIFACT_UNSUPPORTED', {
    flags: ['--download-limit', '16MiB'],
  })
  expect(refused.stderr).toContain('it unpacks to more than 16777216 bytes')
  expect(refused.peakBytes - peakBytes).toBeLessThan(128 * MIB)
})

const TRICKS: Readonly<Record<string, readonly (WrittenEntry | Uint8Array)[]>> = {
  'a path out of the image': [{ name: '../../plugin.wasm', content: UPPER }],
  'a path out of the image and back': [{ name: 'a/../plugin.wasm', content: UPPER }],
  'a path out of the image, in its prefix': [{ name: 'plugin.wasm', prefix: '../..', content: UPPER }],
  'a path out of the image, as a long name of GNU': [
    { name: '././@LongLink', type: 'L', content: '../../plugin.wasm\0' },
    { name: 'plugin.wasm', content: UPPER },
  ],
  'a path out of the image, in a pax record': [
    paxOf({ path: '../../plugin.wasm' }),
    { name: 'plugin.wasm', content: UPPER },
  ],
  'a path with a zero byte': [paxOf({ path: 'plugin.wasm\0.txt' }), { name: 'plugin.wasm', content: UPPER }],
  'a symbolic link': [{ name: 'plugin.wasm', type: '2' }],
  'a hard link': [
    { name: 'a.bin', content: UPPER },
    { name: 'plugin.wasm', type: '1' },
  ],
  'a device': [{ name: 'plugin.wasm', type: '3' }],
  'a sparse file': [{ name: 'plugin.wasm', type: 'S', content: UPPER }],
  'an entry larger than the archive': [{ name: 'plugin.wasm', content: UPPER, size: '7777777\0' }],
  'a negative size': [
    {
      name: 'plugin.wasm',
      content: UPPER,
      size: Uint8Array.of(255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255),
    },
  ],
  'two modules': [
    { name: 'a.wasm', content: UPPER },
    { name: 'b.wasm', content: ECHO },
  ],
  'a name that writes to the terminal': [
    { name: 'a\x1b[2J\n.wasm', content: UPPER },
    { name: 'b.wasm', content: ECHO },
  ],
}

test.each(Object.entries(TRICKS))('an image with %s is refused', async (_, entries) => {
  const registry = await openOciRegistry()
  putImage(registry, ...entries)
  await expectRefusal(registry, 'ARTIFACT_UNSUPPORTED')
})

test('an absolute path is one in the image', async () => {
  const registry = await openOciRegistry()
  putImage(registry, { name: '/etc/plugin.wasm', content: UPPER })
  expect(await call(registry)).toMatchObject({ code: 0, stdout: 'ABC' })
})

const SHAPELESS: Readonly<Record<string, readonly [reason: string, put: (registry: OciRegistry) => void]>> = {
  'indexes four deep': [
    'more than 3 indexes',
    (registry) => {
      const artifact = registry.putArtifact(NAME, { layers: [wasm(UPPER)] })
      const third = registry.putIndex(NAME, [registry.putIndex(NAME, [artifact])])
      registry.putIndex(NAME, [registry.putIndex(NAME, [third])], '1')
    },
  ],
  'two modules': [
    'several modules',
    (registry) => registry.putArtifact(NAME, { layers: [wasm(UPPER), wasm(ECHO)] }, '1'),
  ],
  'a component': [
    'component',
    (registry) =>
      registry.putArtifact(NAME, { layers: [wasm(Uint8Array.of(0, 97, 115, 109, 13, 0, 1, 0))] }, '1'),
  ],
  'another kind of artifact': [
    'application/vnd.cncf.helm.chart',
    (registry) =>
      registry.putArtifact(
        NAME,
        { layers: [{ mediaType: 'application/vnd.cncf.helm.chart.content.v1.tar+gzip', bytes: 'a' }] },
        '1',
      ),
  ],
}

test.each(Object.entries(SHAPELESS))('%s is refused, and the message says why', async (_, [reason, put]) => {
  const registry = await openOciRegistry()
  put(registry)
  expect((await expectRefusal(registry, 'ARTIFACT_UNSUPPORTED')).stderr).toContain(reason)
})

/** What a registry does with uploads. */
const UPLOAD_FAULTS: Readonly<Record<string, readonly [code: string, intercept: Intercept]>> = {
  'does not permit it': ['REGISTRY_REFUSED', (request, answer) => isPost(request) && status(answer, 403)],
  'finds it too large': ['REGISTRY_REFUSED', (request, answer) => isPut(request) && status(answer, 413)],
  'names no URL for it': ['REGISTRY_REFUSED', (request, answer) => isPost(request) && status(answer, 202)],
  'sends it to a file': [
    'REGISTRY_REFUSED',
    (request, answer) => isPost(request) && status(answer, 202, { location: 'file:///etc/passwd' }),
  ],
  'sends it to another host without TLS': [
    'REGISTRY_REFUSED',
    (request, answer) => isPost(request) && status(answer, 202, { location: 'http://169.254.169.254/' }),
  ],
  'redirects it to another host without TLS': [
    'REGISTRY_REFUSED',
    (request, answer) => isPut(request) && status(answer, 307, { location: 'http://169.254.169.254/' }),
  ],
  'redirects it without end': [
    'REGISTRY_REFUSED',
    (request, answer) => isPut(request) && status(answer, 307, { location: request.url ?? '' }),
  ],
  'redirects it as no upload is': [
    'REGISTRY_REFUSED',
    (request, answer) => isPut(request) && status(answer, 302, { location: '/' }),
  ],
  'breaks off each time': [
    'REGISTRY_UNREACHABLE',
    (request, answer) => isPut(request) && answer.destroy().destroyed,
  ],
  'stores something else': [
    'DIGEST_MISMATCH',
    (request, answer) =>
      isPut(request) &&
      request.url?.includes('/manifests/') === true &&
      status(answer, 201, { 'docker-content-digest': digestOf('a') }),
  ],
}
const isPost = ({ method }: IncomingMessage) => method === 'POST'
const isPut = ({ method }: IncomingMessage) => method === 'PUT'

test.each(Object.entries(UPLOAD_FAULTS))('push to a registry that %s is one line with a code', async (_, [
  code,
  intercept,
]) => {
  const registry = await openOciRegistry({ intercept })
  const ended = await run(['push', guest('upper'), `oci://${registry.host}/${NAME}:1`], logIn(registry.host))
  expectOneLine(ended, code)
  expect(registry.digestOf(NAME, '1')).toBeUndefined()
})
