import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { openRegistry } from '../../../../src/plugin/oci/registry.ts'
import { digestOf, openOciRegistry } from '../../../support/oci-registry.ts'
import { serveHttp } from '../../../support/outbound.ts'
import {
  DESCRIPTOR,
  dockerConfig,
  fault,
  LOGIN,
  MODULE,
  openClient,
} from '../../../support/registry-client.ts'

const REFUSED = 'WASM_SERVE_REGISTRY_REFUSED'
const UNREACHABLE = 'WASM_SERVE_REGISTRY_UNREACHABLE'

const basic = { scheme: 'basic', username: 'ada', password: 's3cret' } as const
const bearer = { scheme: 'bearer', username: 'ada', password: 's3cret' } as const

const failureOf = (run: Promise<unknown>): Promise<Error & { code?: string }> =>
  run.then(
    () => new Error('it did not fail'),
    (error) => error,
  )

// HEAD.

test.each<[string, (response: ServerResponse) => void]>([
  ['405', (response) => response.writeHead(405).end()],
  ['404', (response) => response.writeHead(404).end()],
  ['403', (response) => response.writeHead(403).end()],
  ['501', (response) => response.writeHead(501).end()],
  ['503', (response) => response.writeHead(503).end()],
  ['no digest', (response) => response.writeHead(200).end()],
  ['a digest that is none', (response) => response.writeHead(200, { 'docker-content-digest': 'x' }).end()],
])('a registry that answers HEAD with %s resolves a tag by GET', async (_, answer) => {
  const intercept = (request: IncomingMessage, response: ServerResponse) => {
    if (request.method !== 'HEAD') return false
    answer(response)
    return true
  }
  const { registry, manifest, repository, remote } = await openClient({ intercept })
  expect(await registry.resolve(repository, '1.0')).toBe(manifest.digest)
  expect(remote.requests.map(({ method }) => method)).toEqual(['HEAD', 'GET'])
  expect(await registry.pushBlob(repository, Buffer.from('new'))).toBe(digestOf('new'))
})

// Words of the registry.

test.each<[string, string, (response: ServerResponse) => void]>([
  [
    'the errors of the specification',
    'status 429: TOOMANYREQUESTS: You have reached your pull rate limit.',
    (response) =>
      response
        .writeHead(429)
        .end('{"errors":[{"code":"TOOMANYREQUESTS","message":"You have reached your pull rate limit."}]}'),
  ],
  [
    'a line of text',
    'status 503: the storage is read-only',
    (response) =>
      response.writeHead(503, { 'content-type': 'text/plain' }).end('the storage is read-only\nmore'),
  ],
  ['nothing', 'status 502', (response) => response.writeHead(502).end()],
])('a registry that is overloaded says so with %s', async (_, text, answer) => {
  const { registry, repository } = await openClient({ intercept: fault('/manifests/', answer) })
  const error = await failureOf(registry.resolve(repository, '1.0'))
  expect(error.code).toBe(UNREACHABLE)
  expect(error.message).toMatch(new RegExp(`${text.replaceAll('.', '\\.')}$`))
})

test.each([
  ['text/plain', `\u001b]0;a\u0007${'x'.repeat(5_000)}`],
  ['application/json', JSON.stringify({ errors: [{ code: '\u001b[2J', message: 'x'.repeat(5_000) }] })],
])('what a registry says in %s is short and printable', async (type, body) => {
  const intercept = fault('/', (response) => response.writeHead(503, { 'content-type': type }).end(body))
  const { registry, repository } = await openClient({ intercept })
  const { message } = await failureOf(registry.manifest(repository, DESCRIPTOR.digest))
  expect(message).toContain('\\u001b')
  expect(message).not.toContain('\u001b')
  expect(message.length).toBeLessThan(700)
})

test('the error of OAuth 2.0 is shown', async () => {
  const body = '{"error":"invalid_grant","error_description":"the token has expired"}'
  const intercept = fault('/token', (response) => response.writeHead(400).end(body))
  const { registry, repository } = await openClient({ auth: { scheme: 'bearer' }, intercept })
  const { message } = await failureOf(registry.manifest(repository, DESCRIPTOR.digest))
  expect(message).toContain('invalid_grant: the token has expired')
})

// Challenges.

test('a refusal with status 403 that has a challenge is answered, for a pull and for a push', async () => {
  const intercept = (request: IncomingMessage, response: ServerResponse) => {
    if (request.headers.authorization !== undefined || request.url?.startsWith('/token')) return false
    const challenge = `Bearer realm="http://${request.headers.host}/token",error="insufficient_scope"`
    response.writeHead(403, { 'www-authenticate': challenge }).end()
    return true
  }
  const { registry, manifest, repository, remote } = await openClient({
    auth: { scheme: 'bearer' },
    intercept,
  })
  expect((await registry.manifest(repository, manifest.digest)).digest).toBe(manifest.digest)
  expect(await registry.pushBlob(repository, Buffer.from('new'))).toBe(digestOf('new'))
  const tokens = remote.requests.filter(({ url }) => url.startsWith('/token'))
  expect(tokens.map(({ url }) => new URL(url, 'http://a').searchParams.getAll('scope'))).toEqual([
    ['repository:acme/hello:pull'],
    ['repository:acme/hello:pull,push'],
  ])
})

test('a challenge whose body does not end is answered, and its connection is closed', async () => {
  let closed: Promise<unknown> | undefined
  const intercept = (request: IncomingMessage, response: ServerResponse) => {
    if (request.headers.authorization !== undefined || request.url?.startsWith('/token')) return false
    closed = once(response, 'close')
    const challenge = `Bearer realm="http://${request.headers.host}/token"`
    response.writeHead(401, { 'www-authenticate': challenge }).write('{') // the rest never comes
    return true
  }
  const { registry, manifest, repository } = await openClient({ auth: { scheme: 'bearer' }, intercept })
  expect((await registry.manifest(repository, manifest.digest)).digest).toBe(manifest.digest)
  await closed
})

test('a refusal with status 403 after the challenge was answered is final', async () => {
  const intercept = (request: IncomingMessage, response: ServerResponse) => {
    if (request.url?.startsWith('/token')) return false
    const challenge = `Bearer realm="http://${request.headers.host}/token"`
    response.writeHead(403, { 'www-authenticate': challenge }).end('{"errors":[{"code":"DENIED"}]}')
    return true
  }
  const { registry, repository, remote } = await openClient({ auth: { scheme: 'bearer' }, intercept })
  const error = await failureOf(registry.manifest(repository, DESCRIPTOR.digest))
  expect(error).toMatchObject({ code: REFUSED, message: expect.stringContaining('(status 403): DENIED') })
  expect(remote.requests).toHaveLength(3)
})

test('a token that expires while a blob is sent is renewed', async () => {
  const { remote, registry, repository } = await openClient({
    auth: { scheme: 'bearer' },
    intercept(request) {
      if (request.method === 'PUT' && remote.requests.filter(({ method }) => method === 'PUT').length === 1)
        remote.revokeTokens()
      return false
    },
  })
  const bytes = Buffer.alloc(300_000, 'wasm')
  expect(await registry.pushBlob(repository, bytes)).toBe(digestOf(bytes))
  expect(remote.blob(digestOf(bytes))).toHaveLength(bytes.length)
  expect(remote.requests.filter(({ method }) => method === 'PUT')).toHaveLength(2)
})

test('an identity token is sent by GET, with the user beside it, to a token server without POST', async () => {
  const intercept = (request: IncomingMessage, response: ServerResponse) => {
    if (request.method !== 'POST') return false
    response.writeHead(404).end()
    return true
  }
  const remote = await openOciRegistry({ auth: bearer, intercept })
  const { digest } = remote.putManifest('acme/hello', {})
  const repository = { registry: remote.host, repository: 'acme/hello' }
  const open = (entry: object) =>
    openRegistry({ environment: dockerConfig(remote.host, entry) }).manifest(repository, digest)
  expect((await open({ ...LOGIN, identitytoken: 'refresh' })).digest).toBe(digest)
  const user = { auth: Buffer.from('ada:').toString('base64'), identitytoken: 's3cret' }
  expect((await open(user)).digest).toBe(digest)
  await expect(open({ identitytoken: 'refresh' })).rejects.toMatchObject({ code: REFUSED })
})

// Where credentials come from.

test.each([
  basic,
  bearer,
])('a refusal names the file whose credentials were sent by the scheme $scheme', async (auth) => {
  const remote = await openOciRegistry({ auth })
  const wrong = { auth: Buffer.from('ada:wr0ng').toString('base64') }
  const environment = dockerConfig(`${remote.host}/acme`, wrong)
  const repository = { registry: remote.host, repository: 'acme/hello' }
  const { code, message } = await failureOf(
    openRegistry({ environment }).manifest(repository, DESCRIPTOR.digest),
  )
  expect(code).toBe(REFUSED)
  expect(message).toContain(join(environment.DOCKER_CONFIG ?? '', 'config.json'))
  expect(message).toContain(`${remote.host}/acme`)
  expect(message).not.toMatch(/wr0ng|YWRh/)
})

test.each([
  basic,
  bearer,
])('a refusal says which credentials there are, with the scheme $scheme', async (auth) => {
  const remote = await openOciRegistry({ auth })
  const environment = dockerConfig('https://user:pw@other.example/team', LOGIN)
  const repository = { registry: remote.host, repository: 'acme/hello' }
  const { code, message } = await failureOf(
    openRegistry({ environment }).manifest(repository, DESCRIPTOR.digest),
  )
  expect(code).toBe(REFUSED)
  expect(message).toContain('config.json has credentials for other.example/team')
  expect(message).toContain(`${remote.host}/acme/hello`)
  expect(message).not.toMatch(/user:pw|YWRh/)
})

test('credentials of a part of the registry are sent for that part only', async () => {
  const remote = await openOciRegistry({ auth: basic })
  const { digest } = remote.putManifest('acme/hello', {})
  const registry = openRegistry({ environment: dockerConfig(`${remote.host}/acme`, LOGIN) })
  const read = (repository: string) => registry.manifest({ registry: remote.host, repository }, digest)
  expect((await read('acme/hello')).digest).toBe(digest)
  await expect(read('acme-other/hello')).rejects.toMatchObject({ code: REFUSED })
  expect(remote.requests.at(-1)?.headers.authorization).toBeUndefined()
})

// Uploads.

test.each([
  307, 308,
])('an upload whose start and end are redirected with status %d arrives', async (status) => {
  const redirected: string[] = []
  const intercept = (request: IncomingMessage, response: ServerResponse) => {
    if (request.method === 'HEAD' || request.url?.includes('moved')) return false
    redirected.push(String(request.method))
    const location = `${request.url}${request.url?.includes('?') ? '&' : '?'}moved`
    response.writeHead(status, { location }).end()
    return true
  }
  const { remote, registry, repository } = await openClient({ intercept })
  const bytes = Buffer.from('new')
  expect(await registry.pushBlob(repository, bytes)).toBe(digestOf(bytes))
  expect(remote.blob(digestOf(bytes))).toEqual(bytes)
  expect(redirected).toEqual(['POST', 'PUT'])
})

test('the start of an upload is repeated after 429, which means that it was not begun', async () => {
  const answer = (response: ServerResponse) => response.writeHead(429, { 'retry-after': '0' }).end()
  const { remote, registry, repository } = await openClient({ intercept: fault('/uploads/', answer, 2) })
  expect(await registry.pushBlob(repository, Buffer.from('new'))).toBe(digestOf('new'))
  expect(remote.requests.filter(({ method }) => method === 'POST')).toHaveLength(3)
})

test.each([301, 302, 303])('an upload that is redirected with status %d is refused', async (status) => {
  const intercept = fault('/uploads/', (response) => response.writeHead(status, { location: '/' }).end())
  const { registry, repository } = await openClient({ intercept })
  await expect(registry.pushBlob(repository, MODULE.subarray(1))).rejects.toMatchObject({ code: REFUSED })
})

test.each([
  200, 202, 204,
])('a blob and a manifest are stored if the registry says so with status %d', async (status) => {
  const intercept = (request: IncomingMessage, response: ServerResponse) => {
    if (request.method !== 'PUT') return false
    request.resume().on('end', () => response.writeHead(status).end())
    return true
  }
  const { registry, repository } = await openClient({ intercept })
  await registry.pushBlob(repository, Buffer.from('new'))
  await registry.pushManifest(repository, '2', { bytes: MODULE, mediaType: 'a/b' })
})

// Referrers.

test('a registry that takes the tag of referrers for the digest has none', async () => {
  const { remote, registry, manifest, repository } = await openClient({ referrers: false })
  const index = remote.putIndex('acme/hello', [{ ...manifest, artifactType: 'a/b' }], 'index')
  remote.tag('acme/hello', index.digest.replace(':', '-'), index.digest)
  expect(await registry.referrers(repository, index.digest)).toEqual([])
})

test('an empty artifact type of a referrer is none', async () => {
  const { remote, registry, manifest, repository } = await openClient({ referrers: false })
  const other = remote.putManifest('acme/hello', {})
  remote.putIndex('acme/hello', [{ ...other, artifactType: '' }], manifest.digest.replace(':', '-'))
  const [found] = await registry.referrers(repository, manifest.digest)
  expect(found).toMatchObject({ digest: other.digest, artifactType: undefined })
})

test('connections are used again, and end with an answer that nobody reads', async () => {
  const store = await serveHttp((_, response) => {
    response.writeHead(404)
    const timer = setInterval(() => response.write('x'.repeat(10_000)), 1)
    response.on('close', () => clearInterval(timer))
  })
  const endless = openRegistry({ environment: {}, retryDelaysMs: [] })
  const elsewhere = { registry: `127.0.0.1:${store.port}`, repository: 'acme/hello' }
  await expect(endless.manifest(elsewhere, DESCRIPTOR.digest)).rejects.toMatchObject({ code: REFUSED })
  await store.allClosed()

  const content = await serveHttp((_, response) => void response.end('{}'))
  const registry = openRegistry({ environment: {} })
  const repository = { registry: `127.0.0.1:${content.port}`, repository: 'acme/hello' }
  for (let round = 0; round < 3; round++) await registry.manifest(repository, digestOf('{}'))
  expect(content.accepted).toBe(1)
})
