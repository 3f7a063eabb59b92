import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Worker } from 'node:worker_threads'
import { expect, onTestFinished, test } from 'vitest'
import { AUTHORIZED, listenAdmin } from '../support/admin.ts'
import { startWithAdmin, TOKEN } from '../support/admin-api.ts'
import { guest, guestBytes } from '../support/guest.ts'
import { open } from '../support/socket.ts'

const LIMIT = 1_000
const BUSY = 'WASM_SERVE_ADMIN_BUSY'
/** The server that is asked serves nothing, so a whole request ends with this. */
const STARTING = 'WASM_SERVE_STARTING'
const REFUSED = 'WASM_SERVE_CHANGE_REFUSED'

const head = (size: string) =>
  `PUT /api/plugins/a HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: ${AUTHORIZED.authorization}\r\nContent-Type: application/wasm\r\n${size}\r\n\r\n`

/** Begins an upload whose body does not come. */
async function begin(port: number, size = `Content-Length: ${LIMIT}`) {
  const client = await open(port)
  client.send(head(size).replace('Host: 127.0.0.1', `Host: 127.0.0.1:${port}`))
  return client
}

/** The next thread for a guest that is started. */
function guestThread(): Promise<Worker> {
  return new Promise((resolve) => {
    const look = (worker: Worker) => {
      if (worker.resourceLimits?.maxOldGenerationSizeMb !== 256) return // it loads
      process.off('worker', look)
      resolve(worker)
    }
    process.on('worker', look)
  })
}

/** Sends a whole upload. */
async function upload(port: number, bytes: number) {
  const client = await begin(port, `Content-Length: ${bytes}`)
  client.send(Buffer.alloc(bytes))
  const answer = await client.answer()
  return { ...answer, code: JSON.parse(String(answer?.body)).code }
}

test.each([
  `Content-Length: ${LIMIT}`,
  'Transfer-Encoding: chunked',
])('bodies of many uploads are refused before they are read, until others have ended (%s)', async (size) => {
  const { port } = await listenAdmin({}, { uploadLimit: LIMIT })
  const begun = await Promise.all(Array.from({ length: 4 }, async () => begin(port, size)))
  await expect.poll(async () => (await upload(port, 1)).code).toBe(BUSY)

  const refused = await begin(port, size)
  const answer = await refused.answer()
  expect(answer).toMatchObject({ status: 503, headers: { 'retry-after': '1', connection: 'close' } })
  expect(JSON.parse(String(answer?.body)).code).toBe(BUSY)
  refused.socket.destroy()

  begun[0]?.socket.resetAndDestroy() // a client that leaves gives its part back
  await expect.poll(async () => (await upload(port, LIMIT)).code).toBe(STARTING)
  // So does one that was answered.
  expect((await upload(port, LIMIT)).code).toBe(STARTING)
})

test('plug-ins that come from URLs are bounded in the same way', async () => {
  let asked = 0
  const origin = createServer(() => void asked++).listen(0, '127.0.0.1') // it never answers
  await once(origin, 'listening')
  onTestFinished(() => {
    origin.close()
    origin.closeAllConnections()
  })
  const { port: originPort } = origin.address() as AddressInfo
  const { api } = await startWithAdmin([guest('echo')])
  const source = `http://127.0.0.1:${originPort}/a.wasm`
  const pending = Array.from({ length: 4 }, (_, i) => api('PUT', `/api/plugins/a${i}`, { source }))
  await expect.poll(() => asked).toBe(4)
  expect(await api('PUT', '/api/plugins/b', { source })).toMatchObject({ status: 503, body: { code: BUSY } })
  origin.closeAllConnections()
  for (const { body } of await Promise.all(pending)) expect(body.code).toBe('WASM_SERVE_DOWNLOAD_UNREACHABLE')
  expect((await api('PUT', '/api/plugins/b', guestBytes('upper'))).status).toBe(201)
})

test('an upload whose client goes away while it is tried is ended, and nothing of it is live', async () => {
  const { api, adminUrl, post } = await startWithAdmin([guest('echo'), '--start-timeout-ms', '600000'])
  const { port } = new URL(adminUrl)
  const bytes = guestBytes('start-loop')
  const revision = (await api('GET', '/api')).body.revision
  const trial = guestThread()
  const client = await open(Number(port))
  const own = `Host: 127.0.0.1:${port}\r\nAuthorization: Bearer ${TOKEN}`
  client.send(
    `PUT /api/plugins/echo HTTP/1.1\r\n${own}\r\nContent-Type: application/wasm\r\nContent-Length: ${bytes.length}\r\n\r\n`,
  )
  client.send(bytes)
  const thread = await trial
  const ended = once(thread, 'exit')
  await once(thread, 'online')
  client.socket.resetAndDestroy()
  await ended
  await expect.poll(async () => (await api('GET', '/api/changes')).body[0]?.error?.code).toBe(REFUSED)
  expect((await api('GET', '/api')).body.revision).toBe(revision)
  expect(await post('/', 'abc')).toEqual([200, 'abc'])
  expect((await api('PUT', '/api/plugins/echo', guestBytes('upper'))).status).toBe(200)
  expect(await post('/', 'abc')).toEqual([200, 'ABC'])
})

test('what asks for no body and no download is answered meanwhile', async () => {
  const { port, url } = await listenAdmin({}, { uploadLimit: LIMIT })
  await Promise.all(Array.from({ length: 4 }, async () => begin(port)))
  await expect.poll(async () => (await upload(port, 1)).code).toBe(BUSY)
  expect((await fetch(`${url}/openapi.json`, { headers: AUTHORIZED })).status).toBe(200)
})
