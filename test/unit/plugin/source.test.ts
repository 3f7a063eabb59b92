import { createHash } from 'node:crypto'
import { EventEmitter, once } from 'node:events'
import {
  chmodSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { defaultCacheFolder } from '../../../src/platform/cache-folder.ts'
import { download } from '../../../src/plugin/source/download-cache.ts'
import { bytesOf, leaveInFile, readSourceFile } from '../../../src/plugin/source/module-bytes.ts'
import { readSource, verifyStored } from '../../../src/plugin/source/source.ts'
import { parseLink, parseSourceUrl } from '../../../src/plugin/source/url.ts'
import { file, guest, guestBytes } from '../../support/guest.ts'

const echo = guestBytes('echo')
const digest = sha256(echo)
const otherDigest = sha256('other')

function sha256(bytes: Uint8Array | string): string {
  return createHash('sha256').update(bytes).digest('hex')
}

/** A folder of the test's own. */
function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'wasm-serve-'))
  onTestFinished(() => rmSync(path, { recursive: true, force: true }))
  return path
}

interface Origin {
  readonly url: string
  readonly server: Server
  readonly requests: IncomingMessage[]
  close(): Promise<void>
}

/** A server on the loopback interface; closed when the test ends. */
async function origin(answer: RequestListener = (_, response) => void response.end(echo)): Promise<Origin> {
  const requests: IncomingMessage[] = []
  const server = createServer((request, response) => {
    requests.push(request)
    answer(request, response)
  })
  const close = async () => {
    if (!server.listening) return
    const closed = once(server, 'close')
    server.close()
    server.closeAllConnections()
    await closed
  }
  onTestFinished(close)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, server, requests, close }
}

/** Answers by path. */
function paths(
  answers: Record<string, (response: ServerResponse, request: IncomingMessage) => void>,
): RequestListener {
  return (request, response) => {
    const answer = answers[request.url ?? '']
    if (answer) answer(response, request)
    else response.writeHead(404).end()
  }
}

const redirect =
  (location: string, status = 302) =>
  (response: ServerResponse) =>
    void response.writeHead(status, { location }).end()

const refusal = (code: string) => expect.objectContaining({ code: `WASM_SERVE_${code}` })
const messageOf = (run: Promise<unknown>) => run.then(String, (error: Error) => error.message)

// Files, bytes, manifests.

const SOME_DIGEST = expect.stringMatching(/^sha256:[\da-f]{64}$/)

test.each([
  ['a path', () => guest('echo'), 'echo'],
  ['a pinned path', () => `${guest('echo')}#sha256=${digest}`, 'echo'],
  ['a file URL', () => pathToFileURL(guest('echo')), 'echo'],
  ['bytes', () => echo, `sha256:${digest}`],
  ['a manifest object', () => ({ wasm: [{ path: guest('echo'), hash: digest }] }), SOME_DIGEST],
  ['a manifest object with bytes', () => ({ wasm: [{ data: echo, hash: digest }] }), SOME_DIGEST],
  [
    'a manifest file',
    () => file('plugin.json', `\uFEFF {"wasm": [{"path": "${guest('echo')}"}]}`),
    'plugin.json',
  ],
  ['a manifest by its content', () => file('plugin', `{"wasm": [{"path": "${guest('echo')}"}]}`), 'plugin'],
])('%s leads to the bytes of the module', async (kind, source, name) => {
  const read = await readSource(source())
  expect(read.name).toEqual(name)
  const path = kind.includes('bytes') ? undefined : guest('echo')
  expect(read.modules).toEqual([{ name: 'main', bytes: expect.anything(), digest, path }])
  expect(read.warnings).toEqual([])
})

test.each([
  ['ghcr.io/acme/hello', 'oci://ghcr.io/acme/hello'],
  ['ghcr.io/acme/hello:1', 'oci://ghcr.io/acme/hello:1'],
  ['/etc/my.config/registry.example:5000/hello:1.2', 'oci://registry.example:5000/hello:1.2'],
  ['docker://ghcr.io/acme/hello', 'oci://ghcr.io/acme/hello'],
])('%s is no file, and what to write is said', async (source, meant) => {
  expect(await messageOf(readSource(source))).toContain(`write ${meant}`)
})

test.each([
  '/etc/my.config/hello',
  'my.folder/hello.wasm',
])('%s is no file, and no reference', async (source) => {
  expect(await messageOf(readSource(source))).not.toContain('oci://')
})

test('a small file is read at once, unless requests are served', async () => {
  const path = file('small.wasm', echo)
  const firstOf = (read: Promise<unknown>) =>
    Promise.race([read.then(() => 'bytes'), new Promise((resolve) => setImmediate(resolve, 'turn'))])
  expect(await firstOf(readSourceFile(path))).toBe('bytes')
  expect(await firstOf(readSourceFile(path, true))).toBe('turn')
})

test('the bytes of a local module are read again as long as they stay the same', async () => {
  const path = file('again.wasm', echo)
  const [module] = (await readSource(path)).modules
  if (!module) throw new Error('there is no module')
  const left = leaveInFile(module)
  expect(left).toEqual({ path, digest })
  expect(Buffer.compare(await bytesOf(left), echo)).toBe(0)
  writeFileSync(path, guestBytes('upper'))
  await expect(bytesOf(left)).rejects.toMatchObject({ code: 'WASM_SERVE_DIGEST_MISMATCH' })
  rmSync(path)
  await expect(bytesOf(left)).rejects.toMatchObject({ code: 'WASM_SERVE_PLUGIN_UNREADABLE' })
})

test('a manifest brings its settings and the modules beside it, under their names', async () => {
  const here = folder()
  writeFileSync(join(here, 'lib.wasm'), guestBytes('upper'))
  writeFileSync(join(here, 'main.wasm'), echo)
  const wasm = [{ path: 'lib.wasm', name: 'lib' }, { path: 'main.wasm' }]
  writeFileSync(join(here, 'plugin.json'), JSON.stringify({ wasm, config: { a: 'b' }, timeout_ms: 7 }))
  const read = await readSource(join(here, 'plugin.json'))
  expect(read.modules.map(({ name }) => name)).toEqual(['lib', 'main'])
  expect(read.settings).toMatchObject({ config: { a: 'b' }, timeoutMs: 7 })
  expect((await readSource(join(here, 'main.wasm'))).settings).toBeUndefined()
})

test('links are modules of the plug-in', async () => {
  const { modules } = await readSource(guest('echo'), { links: [parseLink(`lib=${guest('upper')}`)] })
  expect(modules.map(({ name }) => name)).toEqual(['main', 'lib'])
})

test.each([
  ['lib=dir/a.wasm', 'lib', 'dir/a.wasm'],
  ['dir/a.wasm', 'a', 'dir/a.wasm'],
  ['dir=x/a.wasm', 'dir', 'x/a.wasm'],
  ['./dir=x/a.wasm', 'a', './dir=x/a.wasm'],
  ['https://h.example/a.wasm?b=c', 'a', 'https://h.example/a.wasm?b=c'],
  [`a.wasm#sha256=${digest}`, 'a', `a.wasm#sha256=${digest}`],
  ['lib=https://h.example/?b=c', 'lib', 'https://h.example/?b=c'],
  ['extism:host/user=upper.wasm', 'extism:host/user', 'upper.wasm'],
  ['a/b:c=d=e.wasm', 'a/b:c', 'd=e.wasm'],
  ['a:b=https://h.example/?b=c', 'a:b', 'https://h.example/?b=c'],
  ['../dir=x/a.wasm', 'a', '../dir=x/a.wasm'],
  ['/dir=x/a.wasm', 'a', '/dir=x/a.wasm'],
  ['C:/dir=x/a.wasm', 'a', 'C:/dir=x/a.wasm'],
  ['file:///dir=x/a.wasm', 'a', 'file:///dir=x/a.wasm'],
])('the link %s has a name and a source', (text, name, source) => {
  expect(parseLink(text)).toEqual({ name, source })
})

test.each([
  ['a missing file', 'absent.wasm', 'PLUGIN_UNREADABLE'],
  ['a folder', tmpdir(), 'PLUGIN_UNREADABLE'],
  ['a missing file of a manifest', { wasm: [{ path: 'absent.wasm' }] }, 'PLUGIN_UNREADABLE'],
  ['a pin that is no digest', `${guest('echo')}#sha256=12`, 'SOURCE_INVALID'],
  ['another pin', `${guest('echo')}#sha256=${otherDigest}`, 'DIGEST_MISMATCH'],
  ['another hash', { wasm: [{ data: echo, hash: otherDigest }] }, 'DIGEST_MISMATCH'],
  ['broken JSON', file('broken.json', 'no'), 'MANIFEST_INVALID'],
  ['a manifest that is not UTF-8', file('latin1', Uint8Array.of(0x7b, 0xff)), 'MANIFEST_INVALID'],
  ['a list as manifest', [], 'MANIFEST_INVALID'],
  ['http of another machine', 'http://plugins.example/a.wasm', 'SOURCE_INVALID'],
  ['another scheme', 'ftp://plugins.example/a.wasm', 'SOURCE_INVALID'],
  ['a reference without a name', 'oci://plugins.example', 'SOURCE_INVALID'],
  ['a URL that is none', 'https://', 'SOURCE_INVALID'],
  ['another fragment', `https://plugins.example/a.wasm#sha265=${digest}`, 'SOURCE_INVALID'],
  ['a file of another machine', 'file://other/a.wasm', 'SOURCE_INVALID'],
])('%s is refused with a code', async (_, source, code) => {
  await expect(readSource(source)).rejects.toEqual(refusal(code))
})

test('a digest that does not match names both', async () => {
  const message = await messageOf(readSource(`${guest('echo')}#sha256=${otherDigest}`))
  expect(message).toContain(digest)
  expect(message).toContain(otherDigest)
})

test.each([
  ['https://plugins.example/a.wasm', 'https://plugins.example/a.wasm'],
  [undefined, `sha256:${digest.slice(0, 12)}`],
])('a stored module from %s that may not be used is called %s', async (place, name) => {
  const stored = { bytes: echo, digest, ...(place !== undefined && { origin: { place } }) }
  await expect(verifyStored(stored, { pulling: { requireSignatures: true } })).rejects.toThrow(name)
})

test('a link cannot be a manifest, nor have a name that is taken or of the host', async () => {
  const manifest = file('link.json', '{}')
  const link = (name: string, source = guest('echo')) => readSource(echo, { links: [{ name, source }] })
  await expect(link('lib', manifest)).rejects.toEqual(refusal('SOURCE_INVALID'))
  await expect(link('main')).rejects.toEqual(refusal('SOURCE_INVALID'))
  await expect(link('extism:host/env')).rejects.toEqual(refusal('SOURCE_INVALID'))
  await expect(link('wasi_snapshot_preview1')).rejects.toEqual(refusal('SOURCE_INVALID'))
})

test("a link, and a module of a manifest, can have the name of Extism's user functions", async () => {
  const name = 'extism:host/user'
  const linked = await readSource(echo, { links: [{ name, source: guest('upper') }] })
  const listed = await readSource({ wasm: [{ path: guest('upper'), name }, { data: echo }] })
  for (const { modules } of [linked, listed]) {
    expect(modules.map((module) => module.name).sort()).toEqual([name, 'main'])
  }
})

// Downloads.

test('a URL leads to a module, or to a manifest with modules beside it', async () => {
  const { url } = await origin(
    paths({
      '/a/echo.wasm': (response) => void response.end(echo),
      '/a/plugin': (response) => void response.end('{"wasm": [{"url": "echo.wasm"}], "config": {"a": "b"}}'),
    }),
  )
  expect(await readSource(`${url}/a/echo.wasm`)).toMatchObject({
    name: `${url}/a/echo.wasm`,
    modules: [{ digest }],
  })
  const manifest = await readSource(new URL(`${url}/a/plugin`))
  expect(manifest).toMatchObject({
    name: `${url}/a/plugin`,
    modules: [{ digest }],
    settings: { config: { a: 'b' } },
  })
})

test('the headers and the method of a manifest are sent', async () => {
  const { url, requests } = await origin()
  await readSource({ wasm: [{ url, headers: { 'X-Key': 'k' }, method: 'POST' }] })
  expect(requests[0]).toMatchObject({ method: 'POST', headers: { 'x-key': 'k' } })
})

test.each([
  'PUT',
  'patch',
  'Delete',
  'OPTIONS',
  'REPORT',
])('the method %s of a manifest is sent', async (method) => {
  const { url, requests } = await origin()
  await readSource({ wasm: [{ url, method }] })
  expect(requests.map((request) => request.method)).toEqual([method.toUpperCase()])
})

test.each([
  [301, 'POST', 'GET'],
  [302, 'PUT', 'PUT'],
  [303, 'PUT', 'GET'],
  [308, 'POST', 'POST'],
])('a redirect with status %d turns %s into %s', async (status, method, expected) => {
  const { url, requests } = await origin(
    paths({ '/': redirect('/next', status), '/next': (response) => void response.end(echo) }),
  )
  await readSource({ wasm: [{ url: `${url}/`, method }] })
  expect(requests.map((request) => request.method)).toEqual([method, expected])
})

test('what another method than GET answers is cached by its hash only', async () => {
  const cacheFolder = folder()
  const { url, requests, close } = await origin(
    (_, response) => void response.setHeader('etag', '"e"').end(echo),
  )
  const read = (hash?: string) =>
    readSource({ wasm: [{ url, method: 'PUT', ...(hash && { hash }) }] }, { cacheFolder })
  await read()
  await read()
  expect(requests.map(({ headers }) => headers['if-none-match'])).toEqual([undefined, undefined])
  await read(digest)
  await close()
  await expect(read()).rejects.toEqual(refusal('DOWNLOAD_UNREACHABLE'))
  expect((await read(digest)).modules[0]?.digest).toBe(digest)
})

test("the operator's credentials do not go with another method that a manifest of the network asks for", async () => {
  const wasm = ['GET', 'DELETE'].map((method) => ({ url: `/${method}`, method, name: method }))
  const { url, requests } = await origin((request, response) => {
    response.end(request.url === '/manifest.json' ? JSON.stringify({ wasm }) : echo)
  })
  await readSource(`${url}/manifest.json`, { authorization: 'Bearer s3cret' })
  const sent = requests.map((request) => [request.url, request.headers.authorization])
  expect(Object.fromEntries(sent)).toEqual({
    '/manifest.json': 'Bearer s3cret',
    '/GET': 'Bearer s3cret',
    '/DELETE': undefined,
  })
})

test('redirects are followed five times, and no further', async () => {
  const { url } = await origin((request, response) => {
    const left = Number(request.url?.slice(1))
    if (left === 0) response.end(echo)
    else redirect(`/${left - 1}`)(response)
  })
  expect(await download(new URL(`${url}/5`))).toMatchObject({ bytes: echo })
  await expect(download(new URL(`${url}/6`))).rejects.toEqual(refusal('DOWNLOAD_REFUSED'))
})

test.each([
  'http://plugins.example/a.wasm',
  'file:///etc/passwd',
  'https://user:pass@plugins.example/',
  'http://[',
])('a redirect to %s is refused', async (location) => {
  const { url } = await origin(paths({ '/': redirect(location) }))
  await expect(download(new URL(url))).rejects.toEqual(refusal('DOWNLOAD_REFUSED'))
})

test('nothing leads from https to http, or from the network to this machine', () => {
  const allowed = (text: string, from?: string) =>
    'place' in parseSourceUrl(text, from ? new URL(from) : undefined)
  for (const here of [
    'http://localhost:1/',
    'http://127.0.0.1/',
    'http://[::1]/',
    'http://127.9.9.9/',
    'http://0x7f.1/',
  ]) {
    expect(allowed(here)).toBe(true)
    expect(allowed(here, 'http://127.0.0.1/')).toBe(true)
    expect(allowed(here, 'https://plugins.example/')).toBe(false)
    expect(allowed(here.replace('http:', 'https:'), 'https://plugins.example/')).toBe(false)
  }
  for (const there of [
    'http://plugins.example/',
    'http://localhost.example/',
    'http://127.0.0.1.example/',
    'http://0.0.0.0/',
  ])
    expect(allowed(there)).toBe(false)
  expect(allowed('http://localhost/', 'https://localhost/')).toBe(false)
  expect(allowed('https://plugins.example/', 'http://localhost/')).toBe(true)
})

test('credentials go to the first origin only, and not with a redirect to another', async () => {
  const other = await origin()
  const first = await origin(
    paths({
      '/a': redirect('/b'),
      '/b': redirect(`${other.url}/c`, 307),
      '/plugin.json': (response) =>
        void response.end(JSON.stringify({ wasm: [{ url: 'x', name: 'x' }, { url: other.url }] })),
      '/x': (response) => void response.end(echo),
    }),
  )
  const authorization = 'Bearer s3cret'
  const sent = ({ requests }: Origin) => requests.map(({ headers }) => headers.authorization)

  const headers = { 'x-key': 'k', Cookie: 'c', 'Private-Token': 't', 'Proxy-Authorization': 'p' }
  await readSource({ wasm: [{ url: `${first.url}/a`, headers }] }, { authorization })
  expect(sent(first)).toEqual([authorization, authorization])
  expect(sent(other)).toEqual([undefined])
  for (const name of Object.keys(headers)) {
    expect(first.requests[1]?.headers).toHaveProperty(name.toLowerCase())
    expect(other.requests[0]?.headers).not.toHaveProperty(name.toLowerCase())
  }

  await readSource(`${first.url}/plugin.json`, { authorization })
  expect(sent(first).slice(2)).toEqual([authorization, authorization])
  expect(sent(other)).toEqual([undefined, undefined])
})

test.each([
  ['401', 401, 'DOWNLOAD_REFUSED'],
  ['403', 403, 'DOWNLOAD_REFUSED'],
  ['404', 404, 'DOWNLOAD_REFUSED'],
  ['no content', 204, 'DOWNLOAD_REFUSED'],
  ['not modified, unasked', 304, 'DOWNLOAD_REFUSED'],
  ['too many requests', 429, 'DOWNLOAD_UNREACHABLE'],
  ['a failure of the server', 500, 'DOWNLOAD_UNREACHABLE'],
])('the answer %s is refused, and secrets are not in the message', async (_, status, code) => {
  const { url } = await origin((_request, response) => void response.writeHead(status).end())
  const source = `${url}/a.wasm?token=s3cret`
  await expect(readSource(source, { authorization: 's3cret' })).rejects.toEqual(refusal(code))
  expect(await messageOf(readSource(source, { authorization: 's3cret' }))).not.toContain('s3cret')
})

test('credentials in a URL or that cannot be sent are refused without being repeated', async () => {
  const { url, requests } = await origin()
  const inUrl = readSource(url.replace('//', '//user:s3cret@'))
  const broken = readSource(url, { authorization: 's3cret\n' })
  await expect(inUrl).rejects.toEqual(refusal('SOURCE_INVALID'))
  await expect(broken).rejects.toEqual(refusal('DOWNLOAD_REFUSED'))
  expect((await messageOf(inUrl)) + (await messageOf(broken))).not.toContain('s3cret')
  expect(requests).toHaveLength(0)
})

test('a module that a proxy has changed on its way is one, too', async () => {
  const { url } = await origin((_, response) => void response.writeHead(203).end(echo))
  expect((await readSource(url)).modules).toMatchObject([{ digest }])
})

test('an HTML page is not a plug-in', async () => {
  const { url } = await origin((_, response) => {
    response.setHeader('content-type', 'text/html; charset=utf-8').end('<!doctype html>')
  })
  await expect(readSource(url)).rejects.toEqual(refusal('DOWNLOAD_REFUSED'))
})

test('a download that announces too much is not read', async () => {
  const { url } = await origin(
    (_, response) => void response.writeHead(200, { 'content-length': 1001 }).flushHeaders(),
  )
  await expect(readSource(url, { maxBytes: 1000 })).rejects.toEqual(refusal('DOWNLOAD_TOO_LARGE'))
})

test('a download that does not end is cut off at the limit', async () => {
  let cut: Promise<unknown> | undefined
  const { url } = await origin((_, response) => {
    cut = once(response, 'close')
    const write = () =>
      void (response.destroyed || (response.write(Buffer.alloc(65_536)) ? setImmediate(write) : 0))
    response.on('drain', write)
    write()
  })
  await expect(readSource(url, { maxBytes: 100_000 })).rejects.toEqual(refusal('DOWNLOAD_TOO_LARGE'))
  await cut
})

test.each([
  ['never answers', () => undefined],
  ['stops within the body', (_: IncomingMessage, response: ServerResponse) => void response.write('a')],
])('a server that %s meets the time limit', async (_, answer) => {
  const { url } = await origin(answer)
  await expect(readSource(url, { timeoutMs: 100 })).rejects.toEqual(refusal('DOWNLOAD_TIMEOUT'))
})

test('when one module cannot be had, the downloads of the others are ended', async () => {
  const hanging = new EventEmitter()
  const arrived = once(hanging, 'arrived')
  const { url } = await origin(
    paths({
      '/hangs': (response) => void hanging.emit('arrived', response),
      '/absent': (response) => void arrived.then(() => response.writeHead(404).end()),
    }),
  )
  const wasm = [{ url: `${url}/hangs`, name: 'a' }, { url: `${url}/absent` }]
  const closed = arrived.then(([response]) => once(response, 'close'))
  await expect(readSource({ wasm })).rejects.toEqual(refusal('DOWNLOAD_REFUSED'))
  await closed
})

test('a body that is cut off, a closed port and an unknown name are all unreachable', async () => {
  const { url } = await origin((_, response) => {
    response.writeHead(200, { 'content-length': 100 })
    response.write('a', () => response.destroy())
  })
  const gone = await origin()
  await gone.close()
  await expect(readSource(url)).rejects.toEqual(refusal('DOWNLOAD_UNREACHABLE'))
  await expect(readSource(gone.url)).rejects.toEqual(refusal('DOWNLOAD_UNREACHABLE'))
  await expect(readSource('https://plugins.invalid/')).rejects.toEqual(refusal('DOWNLOAD_UNREACHABLE'))
})

test('a server that does not speak TLS is refused, not unreachable: no copy is used instead', async () => {
  const { url } = await origin()
  await expect(readSource(url.replace('http:', 'https:'))).rejects.toEqual(refusal('DOWNLOAD_REFUSED'))
})

// The cache.

const entries = (cacheFolder: string) => readdirSync(join(cacheFolder, 'sha256'))

test('a pinned URL is downloaded once, and then read without the network', async () => {
  const cacheFolder = join(folder(), 'new')
  const { url, requests, close } = await origin()
  const source = `${url}/a.wasm#sha256=${digest.toUpperCase()}`
  await readSource(source, { cacheFolder })
  expect(entries(cacheFolder)).toEqual([digest])
  await readSource(source, { cacheFolder })
  expect(requests).toHaveLength(1)
  await close()
  expect(await readSource(source, { cacheFolder })).toMatchObject({ modules: [{ digest }], warnings: [] })
})

test('what does not match its pin is neither used nor kept', async () => {
  const cacheFolder = folder()
  const { url } = await origin()
  const source = `${url}/a.wasm#sha256=${otherDigest}`
  await expect(readSource(source, { cacheFolder })).rejects.toEqual(refusal('DIGEST_MISMATCH'))
  expect(readdirSync(cacheFolder)).toEqual([])
})

test('a damaged entry is dropped and downloaded again', async () => {
  const cacheFolder = folder()
  const { url, requests } = await origin()
  const source = `${url}#sha256=${digest}`
  await readSource(source, { cacheFolder })
  writeFileSync(join(cacheFolder, 'sha256', digest), 'damaged')
  expect((await readSource(source, { cacheFolder })).modules[0]?.digest).toBe(digest)
  expect(requests).toHaveLength(2)
  expect(sha256(readFileSync(join(cacheFolder, 'sha256', digest)))).toBe(digest)
})

test('an unpinned URL asks the network first, with the ETag of the copy', async () => {
  const cacheFolder = folder()
  let bytes = echo
  const { url, requests } = await origin((request, response) => {
    const etag = `"${sha256(bytes)}"`
    if (request.headers['if-none-match'] === etag) response.writeHead(304).end()
    else response.setHeader('etag', etag).end(bytes)
  })
  await readSource(url, { cacheFolder })
  expect((await readSource(url, { cacheFolder })).modules[0]?.digest).toBe(digest)
  bytes = guestBytes('upper')
  expect((await readSource(url, { cacheFolder })).modules[0]?.digest).toBe(sha256(bytes))
  expect(requests.map(({ headers }) => headers['if-none-match'])).toEqual([
    undefined,
    `"${digest}"`,
    `"${digest}"`,
  ])
})

test('an unpinned URL falls back to its copy when offline, and warns', async () => {
  const cacheFolder = folder()
  const { url, close } = await origin()
  await readSource(url, { cacheFolder })
  await close()
  const read = await readSource(url, { cacheFolder })
  expect(read.modules[0]?.digest).toBe(digest)
  expect(read.warnings).toHaveLength(1)
  await expect(readSource(`${url}/other`, { cacheFolder })).rejects.toEqual(refusal('DOWNLOAD_UNREACHABLE'))
})

test.each([404, 401])('the copy does not hide that the server now says %d', async (status) => {
  const cacheFolder = folder()
  const statuses = [200, status]
  const { url } = await origin((_, response) => void response.writeHead(statuses.shift() ?? status).end(echo))
  await readSource(url, { cacheFolder })
  await expect(readSource(url, { cacheFolder })).rejects.toEqual(refusal('DOWNLOAD_REFUSED'))
})

test.each([
  ['is damaged', 'damaged'],
  ['names a file elsewhere', '{"digest": "../../../../etc/passwd"}'],
  ['is no object', 'null'],
])('a record that %s is as good as none', async (_, text) => {
  const cacheFolder = folder()
  const { url } = await origin()
  await readSource(url, { cacheFolder })
  for (const name of readdirSync(join(cacheFolder, 'requests')))
    writeFileSync(join(cacheFolder, 'requests', name), text)
  expect(await readSource(url, { cacheFolder })).toMatchObject({ modules: [{ digest }], warnings: [] })
})

test('a cache that cannot be written is a warning', async () => {
  const { url } = await origin()
  const read = await readSource(url, { cacheFolder: join(file('no-folder', ''), 'cache') })
  expect(read.modules[0]?.digest).toBe(digest)
  expect(read.warnings.length).toBeGreaterThan(0)
})

test.each([
  ['the folder', ''],
  ['the folder of records', 'requests'],
  ['a record', 'requests/*'],
])('a copy without a pin is not used where others could write to %s, and a warning says why', async (_, part) => {
  const cacheFolder = folder()
  const served = { etag: '"e"', bytes: guestBytes('upper') }
  const { url, requests, close } = await origin((request, response) => {
    if (request.headers['if-none-match'] === served.etag) response.writeHead(304).end()
    else response.setHeader('etag', served.etag).end(served.bytes)
  })
  await readSource(url, { cacheFolder })
  // Another user's: the record of this request leads to bytes of his.
  const [record = ''] = readdirSync(join(cacheFolder, 'requests'))
  writeFileSync(join(cacheFolder, 'sha256', digest), echo)
  writeFileSync(join(cacheFolder, 'requests', record), JSON.stringify({ digest, etag: served.etag }))
  const opened = join(cacheFolder, part.replace('*', record))
  chmodSync(opened, part.endsWith('*') ? 0o666 : 0o777)
  const read = await readSource(url, { cacheFolder })
  expect(read.modules[0]?.digest).toBe(sha256(served.bytes))
  expect(requests.at(-1)?.headers['if-none-match']).toBeUndefined()
  expect(read.warnings).toEqual([expect.stringContaining(`chmod`)])
  expect(JSON.parse(readFileSync(join(cacheFolder, 'requests', record), 'utf8')).digest).toBe(digest)
  await close()
  await expect(readSource(url, { cacheFolder })).rejects.toEqual(refusal('DOWNLOAD_UNREACHABLE'))
  // With a pin no other bytes can be had.
  expect((await readSource(`${url}#sha256=${digest}`, { cacheFolder })).modules[0]?.digest).toBe(digest)
})

test('the cache is for its owner alone', async () => {
  const cacheFolder = join(folder(), 'new', 'cache')
  const { url } = await origin()
  await readSource(url, { cacheFolder })
  const [record = ''] = readdirSync(join(cacheFolder, 'requests'))
  const mode = (path: string) => statSync(join(cacheFolder, path)).mode & 0o777
  expect(['.', 'requests', 'sha256'].map(mode)).toEqual([0o700, 0o700, 0o700])
  expect([`requests/${record}`, `sha256/${digest}`].map(mode)).toEqual([0o600, 0o600])
})

test('many readers at once leave one whole entry and no temporary file', async () => {
  const cacheFolder = folder()
  const { url } = await origin()
  await Promise.all(Array.from({ length: 20 }, () => readSource(`${url}#sha256=${digest}`, { cacheFolder })))
  expect(entries(cacheFolder)).toEqual([digest])
})

test('secrets of a URL or a header are not written to the cache', async () => {
  const cacheFolder = folder()
  const { url } = await origin()
  const wasm = [{ url: `${url}/?token=s3cret`, headers: { 'x-key': 's3cret' } }]
  await readSource({ wasm }, { cacheFolder, authorization: 's3cret' })
  const files = readdirSync(join(cacheFolder, 'requests'))
  const texts = files.map((name) => name + readFileSync(join(cacheFolder, 'requests', name), 'utf8'))
  expect(texts).toHaveLength(1)
  expect(texts.join()).not.toMatch(/s3cret|127\.0\.0\.1/)
})

test('the cache is where XDG says, or below the home folder', () => {
  expect(defaultCacheFolder({ XDG_CACHE_HOME: '/var/cache/me' })).toBe('/var/cache/me/wasm-serve')
  expect(defaultCacheFolder({ XDG_CACHE_HOME: 'relative' })).toMatch(/\.cache\/wasm-serve$/)
  expect(defaultCacheFolder({})).toMatch(/\.cache\/wasm-serve$/)
})

test('a link to a file that does not exist is not told to mean itself', async () => {
  const path = join(folder(), 'only.wasm')
  symlinkSync('nowhere.wasm', path)
  await expect(readSourceFile(path)).rejects.toThrow(/there is no such file$/)
})
