import { EventEmitter, once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { run, start } from '../support/cli-process.ts'
import { guestBytes } from '../support/guest.ts'
import { startLoad } from '../support/load.ts'
import { openOciRegistry } from '../support/oci-registry.ts'
import { putPlugin, REGISTRY_NAME, signManifest } from '../support/registry-plugins.ts'
import { OCI_MANIFEST } from '../support/registry-shapes.ts'
import { makeKey } from '../support/signatures.ts'

const UPPER = guestBytes('upper')
const ECHO = guestBytes('echo')

function temporaryFolder(): string {
  const path = mkdtempSync(join(tmpdir(), 'wasm-serve-registry-'))
  onTestFinished(() => rmSync(path, { recursive: true, force: true }))
  return path
}

test.each([
  ['one process', []],
  ['serving processes', ['--processes', '2']],
])(
  'following a tag under load loses no request of 100,000, and takes only what is signed: %s',
  { timeout: 300_000 },
  async (_, flags) => {
    const registry = await openOciRegistry()
    const key = makeKey()
    onTestFinished(() => key.close())
    const versions: string[] = []
    const put = (bytes: Uint8Array) => {
      const stored = putPlugin(registry, bytes, '1', { version: String(versions.length) })
      versions.push(stored.digest)
      return stored
    }
    const putSigned = (bytes: Uint8Array) => signManifest(registry, put(bytes), key.privateKey)
    putSigned(ECHO)
    const server = start([
      ...[`oci://${registry.host}/${REGISTRY_NAME}:1`, '--port', '0', '--registry-poll-ms', '1000'],
      ...['--cache-folder', temporaryFolder(), '--trust', `${registry.host}/acme=${key.path}`],
      ...flags,
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
      putSigned(change % 2 ? UPPER : ECHO)
      await server.logged('"changed"', change)
      expect(await post()).toBe(change % 2 ? 'ABC' : 'abc')
      await load.answered(10_000)
    }
    const unsigned = put(UPPER)
    await server.logged('WASM_SERVE_SIGNATURE_MISSING')
    await load.answered(10_000)
    expect(await post()).toBe('abc')
    signManifest(registry, unsigned, key.privateKey)
    await server.logged('"changed"', 5)
    expect(await post()).toBe('ABC')

    await load.answered(Math.max(10_000, 100_000 - load.counts.answers))
    expect(await load.stop()).toMatchObject({ wrong: 0, non2xx: 0, resets: 0, refused: 0 })
    const followed = server
      .stderr()
      .split('\n')
      .filter((line) => line.includes('the tag has a new digest'))
      .map((line): { from: string; to: string } => JSON.parse(line))
    expect(followed.map(({ from, to }) => [from, to])).toEqual(
      versions.slice(1).map((to, index) => [versions[index], to]),
    )
  },
)

test('while nothing changes, following a tag is one HEAD each time', async () => {
  const polls = new EventEmitter()
  const registry = await openOciRegistry({ intercept: () => polls.emit('request') && false })
  putPlugin(registry, UPPER, '1')
  const server = start([
    ...[`oci://${registry.host}/${REGISTRY_NAME}:1`, '--port', '0', '--registry-poll-ms', '1000'],
    ...['--cache-folder', temporaryFolder()],
  ])
  await server.listening()
  registry.forgetRequests()
  for (let poll = 0; poll < 3; poll++) await once(polls, 'request')
  const seen = registry.requests.map(({ method, url }) => `${method} ${url}`)
  expect(new Set(seen)).toEqual(new Set([`HEAD /v2/${REGISTRY_NAME}/manifests/1`]))
})

test('a registry that is down while its tag is followed stops neither the server nor, later, the changes', async () => {
  let isDown = false
  const registry = await openOciRegistry({
    intercept(_, answer) {
      if (isDown) answer.writeHead(503).end()
      return isDown
    },
  })
  putPlugin(registry, UPPER, '1')
  const server = start([
    ...[`oci://${registry.host}/${REGISTRY_NAME}:1`, '--port', '0', '--registry-poll-ms', '1000'],
    ...['--cache-folder', temporaryFolder()],
  ])
  const url = await server.listening()
  const post = async () => (await fetch(url, { method: 'POST', body: 'abC' })).text()
  isDown = true
  await server.logged('The registry is not available')
  expect(await post()).toBe('ABC')
  putPlugin(registry, ECHO, '1')
  isDown = false
  await server.logged('"changed"')
  expect(await post()).toBe('abC')
})

test('a server ends while a registry that it asks does not answer', async () => {
  const polls = new EventEmitter()
  let isSilent = false
  const registry = await openOciRegistry({ intercept: () => isSilent && polls.emit('request') })
  putPlugin(registry, UPPER, '1')
  const server = start([
    ...[`oci://${registry.host}/${REGISTRY_NAME}:1`, '--port', '0', '--registry-poll-ms', '1000'],
    ...['--cache-folder', temporaryFolder(), '--download-timeout-ms', '600000'],
  ])
  await server.listening()
  isSilent = true
  await once(polls, 'request')
  server.kill('SIGTERM')
  expect(await server.ended).toMatchObject({ code: 0, signal: null })
})

test('a cached pin makes no request, also under a trust policy; and a server starts from it while the registry is gone', async () => {
  const registry = await openOciRegistry()
  const { host } = registry
  const key = makeKey()
  onTestFinished(() => key.close())
  const { digest } = putPlugin(registry, UPPER, '1')
  signManifest(registry, { mediaType: OCI_MANIFEST, digest, size: 0 }, key.privateKey)
  const cache = ['--cache-folder', temporaryFolder()]
  const pinned = `oci://${host}/${REGISTRY_NAME}@${digest}`
  const trust = ['--trust', `${host}/acme=${key.path}`, '--require-signatures']
  const call = (...flags: string[]) => run(['call', pinned, '-i', 'abc', ...cache, ...flags])
  const serve = async (reference: string) => {
    const server = start([reference, '--port', '0', ...cache, ...trust])
    const answer = await fetch(await server.listening(), { method: 'POST', body: 'abc' })
    expect(await answer.text()).toBe('ABC')
    server.kill('SIGTERM')
    await server.ended
  }

  await serve(`oci://${host}/${REGISTRY_NAME}:1`)
  registry.forgetRequests()
  expect(await call()).toMatchObject({ code: 0, stdout: 'ABC', stderr: '' })
  expect(await call(...trust)).toMatchObject({ code: 0, stdout: 'ABC', stderr: '' })
  await serve(pinned)
  expect(registry.requests).toEqual([])

  await registry.close()
  expect(await call(...trust)).toMatchObject({ code: 0, stdout: 'ABC', stderr: '' })
  await serve(pinned)
  await serve(`oci://${host}/${REGISTRY_NAME}:1`)
})
