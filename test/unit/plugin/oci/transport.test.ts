import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { join } from 'node:path'
import { createServer as createTlsServer } from 'node:tls'
import { expect, onTestFinished, test } from 'vitest'
import { proxyOf } from '../../../../src/plugin/oci/proxy.ts'
import { openRegistry } from '../../../../src/plugin/oci/registry.ts'
import { selfSigned } from '../../../support/certificate.ts'
import { digestOf, openOciRegistry } from '../../../support/oci-registry.ts'
import { serveHttp } from '../../../support/outbound.ts'
import { DESCRIPTOR, fault, openClient, temporaryFolder } from '../../../support/registry-client.ts'

const REFUSED = 'WASM_SERVE_REGISTRY_REFUSED'
const UNREACHABLE = 'WASM_SERVE_REGISTRY_UNREACHABLE'

test('a registry with a private CA is trusted by its certificate only', async () => {
  const certificate = selfSigned('localhost')
  const remote = await openOciRegistry({ certificate })
  const { digest } = remote.putManifest('acme/hello', {})
  const host = remote.host.replace('127.0.0.1', 'localhost')
  const repository = { registry: host, repository: 'acme/hello' }
  const ca = join(temporaryFolder(), 'ca.pem')
  writeFileSync(ca, certificate.cert)
  const trusting = openRegistry({ environment: {}, registries: { [host]: { ca } } })
  expect((await trusting.manifest(repository, digest)).digest).toBe(digest)

  const strict = openRegistry({ environment: {}, registries: { [host]: { insecure: false } } })
  const refused = 'WASM_SERVE_REGISTRY_REFUSED'
  await expect(strict.manifest(repository, digest)).rejects.toMatchObject({ code: refused })
  writeFileSync(ca, 'no certificate')
  const broken = openRegistry({ environment: {}, registries: { [host]: { ca } } })
  const invalid = 'WASM_SERVE_CREDENTIALS_INVALID'
  await expect(broken.manifest(repository, digest)).rejects.toMatchObject({ code: invalid })
})

test('a registry with https that speaks http is refused with the setting for it', async () => {
  const { remote, repository } = await openClient()
  const registry = openRegistry({ environment: {}, registries: { [remote.host]: { insecure: false } } })
  await expect(registry.manifest(repository, DESCRIPTOR.digest)).rejects.toMatchObject({
    code: REFUSED,
    message: expect.stringMatching(/does not speak TLS.*"insecure"/),
  })
})

test('a registry that speaks HTTP/2 only is refused, and says so', async () => {
  const certificate = selfSigned('localhost')
  const server = createTlsServer({ ...certificate, ALPNCallback: () => undefined }).listen(0, '127.0.0.1')
  onTestFinished(() => void server.close())
  await new Promise((listening) => server.once('listening', listening))
  const host = `localhost:${(server.address() as AddressInfo).port}`
  const ca = join(temporaryFolder(), 'ca.pem')
  writeFileSync(ca, certificate.cert)
  const registry = openRegistry({ environment: {}, registries: { [host]: { ca } } })
  const repository = { registry: host, repository: 'acme/hello' }
  await expect(registry.manifest(repository, DESCRIPTOR.digest)).rejects.toMatchObject({
    code: REFUSED,
    message: expect.stringContaining('HTTP/2 only'),
  })
})

test('an answer in an unknown content coding is refused, and its connection is closed', async () => {
  let closed: Promise<unknown> | undefined
  const intercept = fault('/manifests/', (response) => {
    closed = once(response, 'close')
    response.writeHead(200, { 'content-encoding': 'exi' }).write('{') // the rest never comes
  })
  const { registry, repository } = await openClient({ intercept })
  await expect(registry.manifest(repository, digestOf('{}'))).rejects.toMatchObject({
    code: REFUSED,
    message: expect.stringContaining('exi'),
  })
  await closed
})

test.each([
  ['10.1.2.3:5000', '10.0.0.0/8', true],
  ['10.1.2.3:5000', '192.168.0.0/16, 10.1.2.3', true],
  ['10.1.2.3:5000', '10.1.2.0/33', false],
  ['10.1.2.3:5000', '10.1.2.0/x', false],
  ['11.1.2.3:5000', '10.0.0.0/8', false],
  ['[fd00::1]:5000', 'fd00::/8', true],
  ['[fd00::1]:5000', '10.0.0.0/8', false],
  ['10.registry.example', '10.0.0.0/8', false],
])('%s is excluded from proxies by %s: %s', (host, NO_PROXY, isExcluded) => {
  const proxy = proxyOf(new URL(`https://${host}/`), { HTTPS_PROXY: 'proxy.example:3128', NO_PROXY })
  expect(proxy?.href).toBe(isExcluded ? undefined : 'http://proxy.example:3128/')
})

interface ProxyOptions {
  /** The status of its answer to a tunnel. Default: 200, and it connects. */
  readonly status?: number
  /** The user and password that it wants. */
  readonly login?: string
}

/** A proxy that leads everything to one port of this machine. */
async function openProxy(port: number, { status = 200, login }: ProxyOptions = {}) {
  const asked: string[] = []
  const tunnels: (string | undefined)[] = []
  const isKnown = ({ headers }: IncomingMessage) =>
    login === undefined || headers['proxy-authorization'] === `Basic ${Buffer.from(login).toString('base64')}`
  const proxy = createServer(async (request, response) => {
    asked.push(`${request.method} ${request.url} ${request.headers.host}`)
    if (!isKnown(request)) return void response.writeHead(407).end()
    const { pathname } = new URL(String(request.url))
    const answer = await fetch(`http://127.0.0.1:${port}${pathname}`)
    response.writeHead(answer.status).end(Buffer.from(await answer.arrayBuffer()))
  })
  proxy.on('connect', (request, socket, head) => {
    tunnels.push(request.headers.connection)
    asked.push(`${request.method} ${request.url} ${request.headers.host}`)
    const answer = isKnown(request) ? status : 407
    if (answer !== 200) return void socket.end(`HTTP/1.1 ${answer} No\r\n\r\n`)
    const upstream = connect(port, '127.0.0.1', () => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n')
      upstream.write(head)
      upstream.pipe(socket).pipe(upstream)
    })
    for (const end of [socket, upstream])
      end.on('error', () => [socket, upstream].map((each) => each.destroy()))
    onTestFinished(() => void upstream.destroy())
  })
  await new Promise<void>((listening) => proxy.listen(0, '127.0.0.1', listening))
  onTestFinished(() => {
    proxy.close()
    proxy.closeAllConnections()
  })
  return { asked, tunnels, host: `127.0.0.1:${(proxy.address() as AddressInfo).port}` }
}

test('a remote registry with http is reached through the proxy, unless NO_PROXY excludes it', async () => {
  const remote = await openOciRegistry()
  const { digest } = remote.putManifest('acme/hello', {})
  const proxy = await openProxy(Number(remote.host.split(':')[1]), { login: 'bob:s@cret' })
  const repository = { registry: 'registry.test', repository: 'acme/hello' }
  const registries = { 'registry.test': { insecure: true } }
  const open = (environment: Record<string, string>) =>
    openRegistry({ environment, registries, retryDelaysMs: [] })
  const HTTP_PROXY = `http://bob:s%40cret@${proxy.host}`
  expect((await open({ HTTP_PROXY }).manifest(repository, digest)).digest).toBe(digest)
  expect(proxy.asked).toEqual([`GET http://registry.test/v2/acme/hello/manifests/${digest} registry.test`])
  await open({ HTTP_PROXY, NO_PROXY: 'other.test,registry.test:81' }).manifest(repository, digest)
  expect(proxy.asked).toHaveLength(2)

  for (const NO_PROXY of ['*', 'test', '.test', '*.test', 'registry.test:80', 'a, REGISTRY.test']) {
    const read = open({ HTTP_PROXY, NO_PROXY }).manifest(repository, digest)
    await expect(read).rejects.toMatchObject({ code: UNREACHABLE })
  }
  const local = { ...repository, registry: remote.host }
  expect((await open({ HTTP_PROXY }).manifest(local, digest)).digest).toBe(digest)
  expect(proxy.asked).toHaveLength(2)
  await expect(open({ HTTP_PROXY: proxy.host }).manifest(repository, digest)).rejects.toMatchObject({
    code: REFUSED,
    message: expect.stringContaining('the proxy requires a user'),
  })
  for (const wrong of ['http://', 'socks5://127.0.0.1:9']) {
    const code = 'WASM_SERVE_CREDENTIALS_INVALID'
    await expect(open({ HTTP_PROXY: wrong }).manifest(repository, digest)).rejects.toMatchObject({ code })
  }
})

test('a remote registry with https and a private CA is reached through the proxy', async () => {
  const certificate = selfSigned('registry.test')
  const remote = await openOciRegistry({ certificate })
  const { digest } = remote.putManifest('acme/hello', {})
  const bytes = Buffer.alloc(300_000, 'wasm')
  const port = Number(remote.host.split(':')[1])
  const ca = join(temporaryFolder(), 'ca.pem')
  writeFileSync(ca, certificate.cert)
  const repository = { registry: 'registry.test', repository: 'acme/hello' }
  const open = (proxy: string, registries = { 'registry.test': { ca } }) =>
    openRegistry({ environment: { HTTPS_PROXY: proxy }, registries, retryDelaysMs: [] })

  const proxy = await openProxy(port, { login: 'bob:s3cret' })
  const registry = open(`http://bob:s3cret@${proxy.host}`)
  expect((await registry.manifest(repository, digest)).digest).toBe(digest)
  expect(await registry.pushBlob(repository, bytes)).toBe(digestOf(bytes))
  expect(new Set(proxy.asked)).toEqual(new Set(['CONNECT registry.test:443 registry.test:443']))
  expect(new Set(proxy.tunnels)).toEqual(new Set(['keep-alive']))
  const untrusted = openRegistry({ environment: { HTTPS_PROXY: `http://bob:s3cret@${proxy.host}` } })
  await expect(untrusted.manifest(repository, digest)).rejects.toMatchObject({ code: REFUSED })

  const refusals: unknown[] = []
  for (const url of [
    `http://eve:s3cret@${proxy.host}`,
    (await openProxy(port, { status: 403 })).host,
    (await openProxy(port, { status: 503 })).host,
    'http://bob:s3cret@127.0.0.1:9',
  ]) {
    const error: Error & { code?: string } = await open(url)
      .manifest(repository, digest)
      .then(
        () => new Error(),
        (error) => error,
      )
    expect(error.message).toMatch(/the proxy.* does not connect/)
    expect(error.message).not.toContain('s3cret')
    refusals.push(error.code)
  }
  expect(refusals).toEqual([REFUSED, REFUSED, UNREACHABLE, UNREACHABLE])
})

test('a proxy that does not answer ends at the deadline', async () => {
  const proxy = createServer().on('connect', () => undefined)
  await new Promise<void>((listening) => proxy.listen(0, '127.0.0.1', listening))
  onTestFinished(() => {
    proxy.close()
    proxy.closeAllConnections()
  })
  const HTTPS_PROXY = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`
  const registry = openRegistry({ environment: { HTTPS_PROXY }, timeoutMs: 60 })
  const repository = { registry: 'registry.test', repository: 'acme/hello' }
  const code = 'WASM_SERVE_DOWNLOAD_TIMEOUT'
  await expect(registry.manifest(repository, DESCRIPTOR.digest)).rejects.toMatchObject({ code })
})

test('a closed server is no proxy', async () => {
  const closed = await serveHttp((_, response) => response.destroy())
  const environment = { HTTPS_PROXY: `http://127.0.0.1:${closed.port}` }
  const registry = openRegistry({ environment, retryDelaysMs: [] })
  const repository = { registry: 'registry.test', repository: 'acme/hello' }
  await expect(registry.manifest(repository, DESCRIPTOR.digest)).rejects.toMatchObject({ code: UNREACHABLE })
})
