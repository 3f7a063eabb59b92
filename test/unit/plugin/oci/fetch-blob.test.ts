import type { IncomingMessage, ServerResponse } from 'node:http'
import { gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { serveHttp } from '../../../support/outbound.ts'
import { DESCRIPTOR, fault, MODULE, openClient } from '../../../support/registry-client.ts'

const MAX = 1_000
const { size } = DESCRIPTOR
const [FIRST, REST] = [MODULE.subarray(0, 4), MODULE.subarray(4)]

/** Sends the first bytes, and breaks off. */
function breakOff(response: ServerResponse): void {
  response.writeHead(200, { 'content-length': size })
  response.write(FIRST, () => response.destroy())
}

function sendRest(response: ServerResponse, bytes = REST, headers = {}): void {
  response.writeHead(206, { 'content-range': `bytes 4-${size - 1}/${size}`, ...headers }).end(bytes)
}

/** A registry whose answers to the requests of the blob are these, in their order. */
async function openWith(...answers: readonly ((response: ServerResponse) => void)[]) {
  const left = [...answers]
  const progress: number[] = []
  const answer = (response: ServerResponse) => left.shift()?.(response)
  const opened = await openClient(
    { intercept: fault('/blobs/', answer, answers.length) },
    { onProgress: (done) => progress.push(done) },
  )
  const ranges = () => opened.remote.requests.map(({ headers }) => headers.range)
  return { ...opened, ranges, progress }
}

test('after a connection that broke, the rest of a blob is fetched', async () => {
  const { registry, repository, ranges, progress } = await openWith(breakOff, (response) =>
    sendRest(response),
  )
  expect(Buffer.from(await registry.blob(repository, DESCRIPTOR, MAX))).toEqual(MODULE)
  expect(ranges()).toEqual([undefined, `bytes=4-${size - 1}`])
  expect(progress).toEqual([4, size])
})

test('the range is asked for after a redirect, too', async () => {
  const seen: (string | undefined)[] = []
  const store = await serveHttp((request, response) => {
    seen.push(request.headers.range)
    if (request.headers.range === undefined) breakOff(response)
    else sendRest(response)
  })
  const redirect = (response: ServerResponse) =>
    void response.writeHead(307, { location: `http://127.0.0.1:${store.port}/` }).end()
  const { registry, repository } = await openWith(redirect, redirect)
  expect(Buffer.from(await registry.blob(repository, DESCRIPTOR, MAX))).toEqual(MODULE)
  expect(seen).toEqual([undefined, `bytes=4-${size - 1}`])
})

test('a registry without ranges sends the whole blob again', async () => {
  const { registry, repository, ranges } = await openWith(breakOff)
  expect(Buffer.from(await registry.blob(repository, DESCRIPTOR, MAX))).toEqual(MODULE)
  expect(ranges()).toHaveLength(2)
})

test.each<[string, (response: ServerResponse) => void]>([
  ['refuses the range', (response) => void response.writeHead(416).end()],
  ['sends another part', (response) => sendRest(response, REST, { 'content-range': `bytes 5-9/${size}` })],
  ['counts other bytes', (response) => sendRest(response, REST, { 'content-range': 'bytes 4-9/999' })],
  ['names no part', (response) => sendRest(response, REST, { 'content-range': 'bytes' })],
  ['packs the part', (response) => sendRest(response, gzipSync(REST), { 'content-encoding': 'gzip' })],
])('the whole blob is fetched from a registry that %s', async (_, answer) => {
  const { registry, repository, ranges } = await openWith(breakOff, answer)
  expect(Buffer.from(await registry.blob(repository, DESCRIPTOR, MAX))).toEqual(MODULE)
  expect(ranges()).toEqual([undefined, expect.any(String), undefined])
})

test('the digest is that of all parts', async () => {
  const { registry, repository } = await openWith(breakOff, (response) =>
    sendRest(response, Buffer.alloc(REST.length)),
  )
  const code = 'WASM_SERVE_DIGEST_MISMATCH'
  await expect(registry.blob(repository, DESCRIPTOR, MAX)).rejects.toMatchObject({ code })
})

test('a part that nobody asked for is refused', async () => {
  const { registry, repository } = await openWith((response) => sendRest(response))
  const code = 'WASM_SERVE_REGISTRY_REFUSED'
  await expect(registry.blob(repository, DESCRIPTOR, MAX)).rejects.toMatchObject({ code })
})

test('a blob that is sent packed, though nobody asked for it, is unpacked', async () => {
  const intercept = (request: IncomingMessage, response: ServerResponse) => {
    if (!request.url?.includes('/blobs/')) return false
    response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync(MODULE))
    return true
  }
  const { registry, repository } = await openClient({ intercept })
  expect(Buffer.from(await registry.blob(repository, DESCRIPTOR, MAX))).toEqual(MODULE)
})
