import type { IncomingMessage, ServerResponse } from 'node:http'
import { expect, test } from 'vitest'
import { endpointOf, problemWithTarget } from '../../../src/plugin/oci/endpoint.ts'
import { openRegistry } from '../../../src/plugin/oci/registry.ts'
import { digestOf, type OciRegistry, openOciRegistry } from '../../support/oci-registry.ts'
import { sendInterim, serveHttp } from '../../support/outbound.ts'
import { DESCRIPTOR, dockerConfig, fault, LOGIN, MODULE, openClient } from '../../support/registry-client.ts'

const digest = DESCRIPTOR.digest
const MAX = 1_000

const blobRequests = ({ requests }: OciRegistry) => requests.filter(({ url }) => url.includes('/blobs/'))

test('a tag is resolved by HEAD, then manifest and blob are fetched by digest', async () => {
  const { remote, registry, manifest, repository } = await openClient()
  const resolved = await registry.resolve(repository, '1.0')
  expect(resolved).toBe(manifest.digest)
  expect(await registry.manifest(repository, resolved)).toEqual({
    bytes: new Uint8Array(remote.manifest('acme/hello', resolved) ?? []),
    mediaType: 'application/vnd.oci.image.manifest.v1+json',
    digest: resolved,
  })
  expect(Buffer.from(await registry.blob(repository, DESCRIPTOR, MAX))).toEqual(MODULE)
  expect(remote.requests.map(({ method, url }) => `${method} ${url}`)).toEqual([
    'HEAD /v2/acme/hello/manifests/1.0',
    `GET /v2/acme/hello/manifests/${resolved}`,
    `GET /v2/acme/hello/blobs/${digest}`,
  ])
  for (const type of [
    'oci.image.manifest',
    'oci.image.index',
    'distribution.manifest.v2',
    'manifest.list.v2',
  ])
    expect(remote.requests[0]?.headers.accept).toContain(type)
})

test('without the header Docker-Content-Digest the tag is resolved by GET', async () => {
  const manifest = '{"schemaVersion":2}'
  const intercept = fault('/manifests/1.0', (response) => response.end(manifest))
  const { registry, repository } = await openClient({ intercept })
  expect(await registry.resolve(repository, '1.0')).toBe(digestOf(manifest))
})

test('the media type in a manifest precedes that of the header', async () => {
  const { remote, registry, repository } = await openClient()
  const own = remote.putManifest('acme/hello', { mediaType: 'own' }, 'other')
  const none = remote.putManifest('acme/hello', 'not JSON', 'Text/Plain; charset=utf-8')
  const odd = remote.putManifest('acme/hello', { mediaType: { toString: 1 } }, 'a/b')
  const deep = remote.putManifest('acme/hello', `${'{"mediaType":'.repeat(300)}1${'}'.repeat(300)}`, 'c/d')
  expect((await registry.manifest(repository, own.digest)).mediaType).toBe('own')
  expect((await registry.manifest(repository, odd.digest)).mediaType).toBe('a/b')
  expect((await registry.manifest(repository, deep.digest)).mediaType).toBe('c/d')
  expect((await registry.manifest(repository, none.digest)).mediaType).toBe('text/plain')
})

test('progress counts the bytes of a blob', async () => {
  const seen: unknown[] = []
  const { registry, repository } = await openClient({}, { onProgress: (...progress) => seen.push(progress) })
  await registry.blob(repository, DESCRIPTOR, MAX)
  expect(seen.at(-1)).toEqual([MODULE.length, MODULE.length, digest])
})

test.each([
  ['other bytes', Buffer.alloc(MODULE.length), 'WASM_SERVE_DIGEST_MISMATCH'],
  ['fewer bytes', MODULE.subarray(1), 'WASM_SERVE_REGISTRY_REFUSED'],
  ['more bytes', Buffer.concat([MODULE, MODULE]), 'WASM_SERVE_REGISTRY_REFUSED'],
  ['no bytes', Buffer.alloc(0), 'WASM_SERVE_REGISTRY_REFUSED'],
])('a blob with %s is refused, and not fetched again', async (_, bytes, code) => {
  const intercept = fault('/blobs/', (response) => response.end(bytes))
  const { remote, registry, repository } = await openClient({ intercept })
  await expect(registry.blob(repository, DESCRIPTOR, MAX)).rejects.toMatchObject({ code })
  expect(blobRequests(remote)).toHaveLength(1)
})

test('a manifest with other bytes is refused', async () => {
  const intercept = fault('/manifests/', (response) => response.end('{}'))
  const { registry, repository } = await openClient({ intercept })
  const code = 'WASM_SERVE_DIGEST_MISMATCH'
  await expect(registry.manifest(repository, digest)).rejects.toMatchObject({ code })
})

test('what is too large is refused: a blob before it is requested, a manifest at 4 MiB', async () => {
  const intercept = fault('/manifests/', (response) => response.end(Buffer.alloc(4_194_305)))
  const { remote, registry, repository } = await openClient({ intercept })
  const code = 'WASM_SERVE_DOWNLOAD_TOO_LARGE'
  await expect(registry.blob(repository, DESCRIPTOR, MODULE.length - 1)).rejects.toMatchObject({ code })
  expect(remote.requests).toEqual([])
  await expect(registry.manifest(repository, digest)).rejects.toMatchObject({ code })
})

test('a digest that is not SHA-256 is not requested', async () => {
  const { remote, registry, repository } = await openClient()
  const code = 'WASM_SERVE_REGISTRY_REFUSED'
  for (const wrong of ['sha512:abc', '../../other/blobs/x', `${digest}/..`]) {
    await expect(registry.manifest(repository, wrong)).rejects.toMatchObject({ code })
    await expect(registry.blob(repository, { digest: wrong, size: 1 }, MAX)).rejects.toMatchObject({ code })
    await expect(registry.referrers(repository, wrong)).rejects.toMatchObject({ code })
  }
  expect(remote.requests).toEqual([])
})

test('a slow blob ends at the deadline', async () => {
  const intercept = fault('/blobs/', (response) => response.write(MODULE.subarray(0, 4)))
  const { registry, repository } = await openClient({ intercept }, { timeoutMs: 60 })
  const code = 'WASM_SERVE_DOWNLOAD_TIMEOUT'
  await expect(registry.blob(repository, DESCRIPTOR, MAX)).rejects.toMatchObject({ code })
})

test('an aborted client fails with the reason of its signal', async () => {
  const stop = new AbortController()
  const reason = new Error('the server closes')
  const intercept = fault('/blobs/', () => stop.abort(reason))
  const { registry, repository } = await openClient({ intercept }, { signal: stop.signal })
  await expect(registry.blob(repository, DESCRIPTOR, MAX)).rejects.toBe(reason)
  await expect(registry.blob(repository, DESCRIPTOR, MAX)).rejects.toBe(reason)
})

test.each([
  ['status 500', (response: ServerResponse) => response.writeHead(500).end()],
  [
    'status 503 with Retry-After',
    (response: ServerResponse) => response.writeHead(503, { 'retry-after': '0' }).end(),
  ],
  [
    'status 429 with a date',
    (response: ServerResponse) =>
      response.writeHead(429, { 'retry-after': new Date(Date.now() - 5_000).toUTCString() }).end(),
  ],
  ['a closed connection', (response: ServerResponse) => response.destroy()],
  [
    'a connection that closes within the blob',
    (response: ServerResponse) => {
      response.writeHead(200, { 'content-length': MODULE.length })
      response.write(MODULE.subarray(0, 4), () => response.destroy())
    },
  ],
])('after %s the request is repeated', async (_, answer) => {
  const { remote, registry, repository } = await openClient({ intercept: fault('/blobs/', answer, 2) })
  expect(Buffer.from(await registry.blob(repository, DESCRIPTOR, MAX))).toEqual(MODULE)
  expect(blobRequests(remote)).toHaveLength(3)
})

test('a registry that fails at each attempt is unreachable', async () => {
  const intercept = fault('/manifests/', (response) => response.writeHead(502).end())
  const { remote, registry, repository } = await openClient({ intercept })
  const code = 'WASM_SERVE_REGISTRY_UNREACHABLE'
  await expect(registry.resolve(repository, '1.0')).rejects.toMatchObject({ code })
  expect(remote.requests.map(({ method }) => method)).toEqual(['HEAD', 'GET', 'GET', 'GET'])
  await remote.close()
  await expect(registry.resolve(repository, '1.0')).rejects.toMatchObject({ code })
})

test.each([
  [
    'more codings than any answer has',
    (response: ServerResponse) =>
      response.setHeader('content-encoding', Array(2_000).fill('gzip').join()).end('{}'),
  ],
  ['something else than HTTP', ({ socket }: ServerResponse) => socket?.end('220 mail.test ESMTP\r\n')],
])('a registry that sends %s is refused at once: it is not the network', async (_, answer) => {
  const { remote, registry, repository } = await openClient({ intercept: fault('/manifests/', answer) })
  const code = 'WASM_SERVE_REGISTRY_REFUSED'
  await expect(registry.manifest(repository, digest)).rejects.toMatchObject({ code })
  expect(remote.requests).toHaveLength(1)
})

test('interim responses without end meet the time limit', async () => {
  const intercept = fault('/manifests/', ({ socket }) => socket && sendInterim(socket))
  const { registry, repository } = await openClient({ intercept }, { timeoutMs: 50 })
  const code = 'WASM_SERVE_DOWNLOAD_TIMEOUT'
  await expect(registry.manifest(repository, digest)).rejects.toMatchObject({ code })
})

test('a Retry-After beyond the deadline ends the operation at once', async () => {
  const intercept = fault('/manifests/', (response) =>
    response.writeHead(429, { 'retry-after': '3600' }).end(),
  )
  const { remote, registry, repository } = await openClient({ intercept })
  const code = 'WASM_SERVE_REGISTRY_UNREACHABLE'
  await expect(registry.manifest(repository, digest)).rejects.toMatchObject({ code })
  expect(remote.requests).toHaveLength(1)
})

test('the error of a registry is shown, printable and short', async () => {
  const errors = [{ code: 'DENIED', message: `\u001b[31m${'x'.repeat(5_000)}` }]
  const intercept = fault('/manifests/', (response) =>
    response.writeHead(403).end(JSON.stringify({ errors })),
  )
  const { registry, repository } = await openClient({ intercept })
  const error = await registry.manifest(repository, digest).catch((error: Error) => error)
  expect(error).toMatchObject({ code: 'WASM_SERVE_REGISTRY_REFUSED' })
  expect(String(error)).toContain('DENIED')
  expect(String(error)).not.toContain('\u001b')
  expect(String(error).length).toBeLessThan(700)
})

test.each([
  '',
  'text',
  'null',
  '[]',
  '{"errors":7}',
  '{"errors":[null,{"code":{}}]}',
  '{"message":"m"}',
])('a refusal with the body %s is a refusal', async (body) => {
  const intercept = fault('/manifests/', (response) => response.writeHead(404).end(body))
  const { registry, repository } = await openClient({ intercept })
  const code = 'WASM_SERVE_REGISTRY_REFUSED'
  await expect(registry.manifest(repository, digest)).rejects.toMatchObject({ code })
})

test('Basic credentials are sent to the registry, and not to the target of a redirect', async () => {
  const seen: (string | undefined)[] = []
  const store = await serveHttp((request, response) => {
    seen.push(request.headers.authorization)
    response.end(MODULE)
  })
  const redirect = (response: ServerResponse, { headers }: IncomingMessage) => {
    if (!headers.authorization) response.writeHead(401, { 'www-authenticate': 'Basic realm="r"' })
    else response.writeHead(307, { location: `http://127.0.0.1:${store.port}/object?signature=x` })
    response.end()
  }
  const remote = await openOciRegistry({ intercept: fault('/blobs/', redirect) })
  const registry = openRegistry({ environment: dockerConfig(remote.host, LOGIN) })
  const repository = { registry: remote.host, repository: 'acme/hello' }
  await registry.blob(repository, DESCRIPTOR, MAX)
  expect(seen).toEqual([undefined])
  expect(remote.requests.map(({ headers }) => headers.authorization)).toEqual([
    undefined,
    `Basic ${LOGIN.auth}`,
  ])
})

test('a challenge of another origin is not answered', async () => {
  const store = await serveHttp((_, response) => {
    response.writeHead(401, { 'www-authenticate': 'Basic realm="r"' })
    response.end()
  })
  const intercept = fault('/blobs/', (response) =>
    response.writeHead(302, { location: `http://127.0.0.1:${store.port}/` }).end(),
  )
  const remote = await openOciRegistry({ intercept })
  const registry = openRegistry({ environment: dockerConfig(remote.host, LOGIN) })
  const repository = { registry: remote.host, repository: 'acme/hello' }
  const code = 'WASM_SERVE_REGISTRY_REFUSED'
  await expect(registry.blob(repository, DESCRIPTOR, MAX)).rejects.toMatchObject({ code })
  expect(remote.requests).toHaveLength(1)
})

test.each([
  'http://example.com/',
  'ftp://example.com/',
  'http://user:secret@127.0.0.1/',
  'http://',
  '/again',
])('a redirect to %s is refused', async (location) => {
  const intercept = fault('/', (response) => response.writeHead(301, { location }).end())
  const { registry, repository } = await openClient({ intercept })
  const error = await registry.blob(repository, DESCRIPTOR, MAX).catch((error: Error) => error)
  expect(error).toMatchObject({ code: 'WASM_SERVE_REGISTRY_REFUSED' })
  expect(String(error)).not.toContain('secret')
})

test('a remote registry names neither this machine nor http, unless it is insecure itself', () => {
  const secure = endpointOf('registry.example')
  const insecure = endpointOf('registry.example:5000', { insecure: true })
  const problem = (url: string, endpoint = secure) =>
    problemWithTarget(new URL(url), endpoint.origin, endpoint)
  expect(problem('https://store.example/x?y')).toBeUndefined()
  expect(problem('http://store.example/')).toContain('http')
  expect(problem('https://127.0.0.1/')).toContain('this machine')
  expect(problem('https://localhost:8080/')).toContain('this machine')
  expect(problem('https://user:x@store.example/')).toContain('credentials')
  expect(problem('http://store.example/', insecure)).toBeUndefined()
  expect(problem('http://127.0.0.1/', insecure)).toContain('this machine')
  const [http, https] = [new URL('http://a.example'), new URL('https://a.example')]
  expect(problemWithTarget(http, https, insecure)).toContain('http')
})

test('http is for this machine and insecure registries, and docker.io has an API host', () => {
  const origins = [
    endpointOf('ghcr.io'),
    endpointOf('docker.io'),
    endpointOf('localhost:5000'),
    endpointOf('[::1]:5000'),
    endpointOf('localhost:5000', { ca: 'ca.pem' }),
    endpointOf('localhost:5000', { insecure: false }),
    endpointOf('registry.lan:443', { insecure: true }),
  ].map(({ origin }) => origin.origin)
  expect(origins).toEqual([
    'https://ghcr.io',
    'https://registry-1.docker.io',
    'http://localhost:5000',
    'http://[::1]:5000',
    'https://localhost:5000',
    'https://localhost:5000',
    'http://registry.lan:443',
  ])
})

const basic = { scheme: 'basic', username: 'ada', password: 's3cret' } as const
const bearer = { scheme: 'bearer', username: 'ada', password: 's3cret' } as const

test.each([basic, bearer])('credentials of the Docker configuration fit the scheme $scheme', async (auth) => {
  const remote = await openOciRegistry({ auth })
  const { digest } = remote.putManifest('acme/hello', {})
  const repository = { registry: remote.host, repository: 'acme/hello' }
  const registry = openRegistry({ environment: dockerConfig(remote.host, LOGIN) })
  expect((await registry.manifest(repository, digest)).digest).toBe(digest)
})

test('an identity token is exchanged for a token of the registry', async () => {
  const auth = { ...bearer, identityToken: 'refresh me' }
  const remote = await openOciRegistry({ auth })
  const { digest } = remote.putManifest('acme/hello', {})
  const repository = { registry: remote.host, repository: 'acme/hello' }
  const environment = dockerConfig(remote.host, { identitytoken: 'refresh me' })
  await openRegistry({ environment }).manifest(repository, digest)
  expect(remote.requests.map(({ method, url }) => `${method} ${url}`)).toContain('POST /token')
})

test('a token of the Docker configuration is sent as it is', async () => {
  const remote = await openOciRegistry({ auth: bearer })
  const environment = dockerConfig(remote.host, { registrytoken: 'mine' })
  const repository = { registry: remote.host, repository: 'acme/hello' }
  const code = 'WASM_SERVE_REGISTRY_REFUSED'
  await expect(openRegistry({ environment }).manifest(repository, digest)).rejects.toMatchObject({ code })
  expect(remote.requests.map(({ headers }) => headers.authorization)).toEqual([undefined, 'Bearer mine'])
})

test('concurrent requests share one anonymous token, and a revoked one is renewed once', async () => {
  const { remote, registry, manifest, repository } = await openClient({ auth: { scheme: 'bearer' } })
  const tokenRequests = () => remote.requests.filter(({ url }) => url.startsWith('/token'))
  const fetchTen = () =>
    Promise.all(Array.from({ length: 10 }, () => registry.manifest(repository, manifest.digest)))
  await fetchTen()
  expect(tokenRequests()).toHaveLength(1)
  expect(new URL(tokenRequests()[0]?.url ?? '', 'http://a').search).toBe(
    '?service=registry&scope=repository%3Aacme%2Fhello%3Apull',
  )
  await fetchTen()
  expect(tokenRequests()).toHaveLength(1)
  remote.revokeTokens()
  await fetchTen()
  expect(tokenRequests()).toHaveLength(2)
})

test('an expired token is not sent', async () => {
  const auth = { scheme: 'bearer', expiresInSeconds: -1 } as const
  const { remote, registry, manifest, repository } = await openClient({ auth })
  await registry.manifest(repository, manifest.digest)
  remote.forgetRequests()
  await registry.manifest(repository, manifest.digest)
  expect(remote.requests[0]?.headers.authorization).toBeUndefined()
})

test.each([
  ['Basic realm="r"', 2],
  ['Bearer realm="http://REGISTRY/token",service="s"', 3],
])('a registry that refuses each authorization ends the request: %s', async (challenge, requests) => {
  const remote = await openOciRegistry({
    intercept(request, response) {
      if (request.url?.startsWith('/token')) response.end('{"access_token":"t","expires_in":300}')
      else
        response
          .writeHead(401, { 'www-authenticate': challenge.replace('REGISTRY', String(request.headers.host)) })
          .end()
      return true
    },
  })
  const registry = openRegistry({ environment: dockerConfig(remote.host, LOGIN) })
  const repository = { registry: remote.host, repository: 'acme/hello' }
  const code = 'WASM_SERVE_REGISTRY_REFUSED'
  await expect(registry.manifest(repository, digest)).rejects.toMatchObject({ code })
  expect(remote.requests).toHaveLength(requests)
})

test.each([
  ['nothing', undefined],
  ['another scheme', 'Negotiate abc=='],
  ['a password, and there is none', 'Basic realm="r"'],
  ['a realm that is not a URL', 'Bearer realm="x"'],
  ['a remote realm without TLS', 'Bearer realm="http://example.com/token"'],
  ['no realm', 'Bearer service="x"'],
])('a challenge that asks for %s is refused', async (_, challenge) => {
  const headers = challenge === undefined ? {} : { 'www-authenticate': challenge }
  const intercept = fault('/', (response) => response.writeHead(401, headers).end())
  const { remote, registry, repository } = await openClient({ intercept })
  const code = 'WASM_SERVE_REGISTRY_REFUSED'
  await expect(registry.manifest(repository, digest)).rejects.toMatchObject({ code })
  expect(remote.requests).toHaveLength(1)
})

test.each([
  ['nothing', '', ['repository:acme/hello:pull']],
  ['spaces', '  ', ['repository:acme/hello:pull']],
  ['something that only the registry knows', 'aws', ['repository:acme/hello:pull', 'aws']],
  ['a catalog', 'registry:catalog:*', ['repository:acme/hello:pull', 'registry:catalog:*']],
  ['what the request needs', 'repository:acme/hello:pull', ['repository:acme/hello:pull']],
  [
    'more, and another name',
    'repository:acme/hello:push,pull,delete repository:mirror/acme/hello:pull,push',
    ['repository:acme/hello:pull', 'repository:mirror/acme/hello:pull'],
  ],
])('a token is for what the request needs, and for no more actions, if the registry asks for %s', async (_, scope, expected) => {
  const asked: string[][] = []
  const intercept = (request: IncomingMessage, response: ServerResponse) => {
    const url = new URL(String(request.url), 'http://registry.test')
    const challenge = `Bearer realm="http://${request.headers.host}/token",scope="${scope}"`
    if (url.pathname === '/token') asked.push(url.searchParams.getAll('scope'))
    response.writeHead(401, { 'www-authenticate': challenge }).end()
    return true
  }
  const { registry, repository } = await openClient({ intercept })
  await expect(registry.manifest(repository, digest)).rejects.toThrow()
  expect(asked).toEqual([expected])
})

test.each([
  ['refuses', (response: ServerResponse) => response.writeHead(403).end('{"details":"no"}')],
  ['redirects', (response: ServerResponse) => response.writeHead(302, { location: '/other' }).end()],
  ['sends no JSON', (response: ServerResponse) => response.end('<html>')],
  ['sends no token', (response: ServerResponse) => response.end('{"token":7}')],
  ['sends a token that is no header', (response: ServerResponse) => response.end('{"token":"a\\r\\nb"}')],
  ['sends too much', (response: ServerResponse) => response.end(`{"token":"${'x'.repeat(70_000)}"}`)],
])('a token server that %s is a refusal without secrets', async (_, answer) => {
  const remote = await openOciRegistry({ auth: bearer, intercept: fault('/token', answer) })
  const registry = openRegistry({ environment: dockerConfig(remote.host, LOGIN) })
  const repository = { registry: remote.host, repository: 'acme/hello' }
  const error = await registry.manifest(repository, digest).catch((error: Error) => error)
  expect(error).toMatchObject({ code: 'WASM_SERVE_REGISTRY_REFUSED' })
  expect(String(error)).not.toMatch(/s3cret|YWRh/)
})

test('a token server that fails at first is asked again, and a failure is not kept', async () => {
  const intercept = fault('/token', (response) => response.writeHead(500).end(), 4)
  const { registry, manifest, repository } = await openClient({ auth: { scheme: 'bearer' }, intercept })
  const code = 'WASM_SERVE_REGISTRY_UNREACHABLE'
  await expect(registry.manifest(repository, manifest.digest)).rejects.toMatchObject({ code })
  expect((await registry.manifest(repository, manifest.digest)).digest).toBe(manifest.digest)
})

const signature = {
  artifactType: 'application/vnd.dev.sigstore.bundle.v0.3+json',
  layers: [{ mediaType: 'application/json', bytes: '{}' }],
  annotations: { purpose: 'test' },
}

test.each([
  ['by the API', { referrers: true }],
  ['by the API, on several pages', { referrers: true, pageSize: 1 }],
  ['by their tag', { referrers: false }],
])('referrers are listed %s', async (_, options) => {
  const { remote, registry, manifest, repository } = await openClient(options)
  expect(await registry.referrers(repository, manifest.digest)).toEqual([])
  const put = ['a', 'b', 'c'].map((name) =>
    remote.putReferrer('acme/hello', manifest, { ...signature, annotations: { name } }),
  )
  const found = await registry.referrers(repository, manifest.digest)
  expect(found).toEqual(
    put.map((descriptor, at) => ({
      ...descriptor,
      artifactType: signature.artifactType,
      annotations: { name: 'abc'[at] },
    })),
  )
})

test.each([
  [
    'a page of HTML',
    (response: ServerResponse) => response.setHeader('content-type', 'text/html').end('<html>'),
  ],
  ['status 400', (response: ServerResponse) => response.writeHead(400).end()],
  [
    'an index that is none',
    (response: ServerResponse) =>
      response.setHeader('content-type', 'application/vnd.oci.image.index.v1+json').end('[]'),
  ],
])('a registry that answers the referrers API with %s has the tag', async (_, answer) => {
  const { remote, registry, manifest, repository } = await openClient({
    referrers: false,
    intercept: fault('/referrers/', answer),
  })
  remote.putReferrer('acme/hello', manifest, signature)
  expect(await registry.referrers(repository, manifest.digest)).toHaveLength(1)
})

test('referrers are bounded in number and pages, and malformed ones are left out', async () => {
  const pages = { count: 0 }
  const intercept = fault('/referrers/', (response, { url }) => {
    pages.count++
    response.setHeader('content-type', 'application/vnd.oci.image.index.v1+json')
    response.setHeader('link', `<${url}>; rel="next"`)
    const good = { mediaType: 'a/b', digest, size: 3, annotations: { a: 'b', c: 1 } }
    const bad = [
      null,
      7,
      {},
      { ...good, digest: 'sha256:../' },
      { ...good, size: -1 },
      { ...good, mediaType: 1 },
    ]
    response.end(
      JSON.stringify({ manifests: [...bad, ...Array(url?.includes(digest) ? 1 : 100).fill(good)] }),
    )
  })
  const { registry, manifest, repository } = await openClient({ intercept })
  const few = await registry.referrers(repository, digest)
  expect(few).toHaveLength(10)
  expect(few[0]).toEqual({
    mediaType: 'a/b',
    digest,
    size: 3,
    artifactType: undefined,
    annotations: { a: 'b' },
  })
  pages.count = 0
  expect(await registry.referrers(repository, manifest.digest)).toHaveLength(256)
  expect(pages.count).toBe(3)
})

test('pages of referrers stay at their origin', async () => {
  const intercept = fault('/referrers/', (response) => {
    response.setHeader('content-type', 'application/vnd.oci.image.index.v1+json')
    response.setHeader('link', '<https://example.com/next>; rel="next"')
    response.end('{"manifests":[]}')
  })
  const { registry, repository } = await openClient({ intercept })
  const code = 'WASM_SERVE_REGISTRY_REFUSED'
  await expect(registry.referrers(repository, digest)).rejects.toMatchObject({ code })
})

test('a refused list of referrers is not an empty one', async () => {
  const intercept = fault('/referrers/', (response) => response.writeHead(403).end())
  const { registry, repository } = await openClient({ intercept })
  const code = 'WASM_SERVE_REGISTRY_REFUSED'
  await expect(registry.referrers(repository, digest)).rejects.toMatchObject({ code })
})

test('blobs and manifests are pushed, each blob once', async () => {
  const progress: number[] = []
  const remote = await openOciRegistry({ auth: bearer })
  const registry = openRegistry({
    environment: dockerConfig(remote.host, LOGIN),
    onProgress: (done) => progress.push(done),
  })
  const repository = { registry: remote.host, repository: 'acme/hello' }
  const bytes = Buffer.alloc(200_000, 'wasm')
  expect(await registry.pushBlob(repository, bytes)).toBe(digestOf(bytes))
  expect(remote.blob(digestOf(bytes))?.length).toBe(bytes.length)
  expect(progress.at(-1)).toBe(bytes.length)
  remote.forgetRequests()
  await registry.pushBlob(repository, bytes)
  expect(remote.requests.map(({ method }) => method)).toEqual(['HEAD'])

  const manifest = { bytes: Buffer.from('{"schemaVersion":2}'), mediaType: 'application/x' }
  expect(await registry.pushManifest(repository, '2.0', manifest)).toBe(digestOf(manifest.bytes))
  expect(await registry.resolve(repository, '2.0')).toBe(digestOf(manifest.bytes))
  expect(await registry.pushManifest(repository, digestOf(manifest.bytes), manifest)).toBe(
    digestOf(manifest.bytes),
  )
})

test('an upload may have an absolute URL without a query, at another origin without credentials', async () => {
  const seen: unknown[] = []
  const store = await serveHttp((request, response) => {
    seen.push([request.method, request.url, request.headers.authorization, request.headers['content-length']])
    request.resume()
    response.writeHead(201).end()
  })
  const intercept = fault('/uploads/', (response, { headers }) => {
    if (!headers.authorization) response.writeHead(401, { 'www-authenticate': 'Basic realm="r"' }).end()
    else response.writeHead(202, { location: `http://127.0.0.1:${store.port}/here` }).end()
  })
  const remote = await openOciRegistry({ intercept })
  const registry = openRegistry({ environment: dockerConfig(remote.host, LOGIN) })
  await registry.pushBlob({ registry: remote.host, repository: 'acme/hello' }, MODULE)
  const url = `/here?digest=${encodeURIComponent(digest)}`
  expect(seen).toEqual([['PUT', url, undefined, String(MODULE.length)]])
})

test('a push that the registry refuses, redirects or stores as something else is a failure', async () => {
  const refusals = [
    (response: ServerResponse) => response.writeHead(405).end(),
    (response: ServerResponse) => response.writeHead(307, { location: '/other' }).end(),
    (response: ServerResponse) =>
      response.writeHead(201, { 'docker-content-digest': `sha256:${'0'.repeat(64)}` }).end(),
  ]
  const codes: unknown[] = []
  for (const answer of refusals) {
    const { registry, repository } = await openClient({ intercept: fault('/manifests/2.0', answer) })
    const pushed = registry.pushManifest(repository, '2.0', { bytes: MODULE, mediaType: 'a/b' })
    codes.push(await pushed.catch((error: { code?: string }) => error.code))
  }
  const refused = 'WASM_SERVE_REGISTRY_REFUSED'
  expect(codes).toEqual([refused, refused, 'WASM_SERVE_DIGEST_MISMATCH'])
})

test('the start of an upload is not repeated', async () => {
  const intercept = fault('/uploads/', (response) => response.writeHead(503).end())
  const { remote, registry, repository } = await openClient({ intercept })
  const code = 'WASM_SERVE_REGISTRY_UNREACHABLE'
  await expect(registry.pushBlob(repository, Buffer.from('new'))).rejects.toMatchObject({ code })
  expect(remote.requests.filter(({ method }) => method === 'POST')).toHaveLength(1)
})
