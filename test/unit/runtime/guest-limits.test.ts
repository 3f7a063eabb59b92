import { expect, test } from 'vitest'
import { describeTrap } from '../../../src/guest/host-functions.ts'
import { checkRequest, parseGuestRequest } from '../../../src/guest/outbound/guest-request.ts'
import { serveKv } from '../../../src/guest/store/kv.ts'
import { openMemoryStore } from '../../../src/guest/store/memory.ts'
import { GUEST_LIMITS } from '../../../src/platform/guest-limits.ts'
import { openKernelMemory } from '../../../src/runtime/kernel-memory.ts'

const { errorBytes, httpHeaders, httpUrl } = GUEST_LIMITS

/* What guests pass is large here: what is quadratic in it would take seconds. */

const send = (request: object) =>
  checkRequest(parseGuestRequest(Buffer.from(JSON.stringify(request))), undefined)
const invalid = expect.objectContaining({ code: 'WASM_SERVE_OUTBOUND_REQUEST_INVALID' })

test('a request to another server has as many headers as the limit says, and no more', () => {
  const headers = (count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, i) => [`a${i}`, '']))
  expect(send({ url: 'http://a/', headers: headers(httpHeaders) }).headers.size).toBe(httpHeaders)
  expect(() => send({ url: 'http://a/', headers: headers(httpHeaders + 1) })).toThrow(invalid)
})

test('its URL is as long as the limit says, and no longer', () => {
  const url = (length: number) => 'http://a/'.padEnd(length, 'a')
  expect(send({ url: url(httpUrl) }).url.href).toHaveLength(httpUrl)
  expect(() => send({ url: url(httpUrl + 1) })).toThrow(invalid)
})

test('the header connection names others, however it is written', () => {
  const spaces = ' '.repeat(8_000)
  const { headers } = send({
    url: 'http://a/',
    headers: { connection: `X-A${spaces},${spaces}b`, 'x-a': '1', b: '2', c: '3' },
  })
  expect([...headers.keys()]).toEqual(['c'])
})

test("a guest's error is cut", () => {
  const memory = openKernelMemory(8 * errorBytes)
  const error_set = memory.functions.error_set as (at: bigint) => void
  error_set(memory.store(Buffer.alloc(4 * errorBytes, 'a')))
  expect(memory.error()).toBe('a'.repeat(errorBytes))
})

test('a function of the guest with a name that is too long is called by its number', () => {
  const name = ' (wasm://wasm/'.repeat(100_000)
  const error = new Error('unreachable')
  error.stack = `Error\n    at ${name} (wasm://wasm/1f2e:wasm-function[5]:0x67)\n    at a (wasm://wasm/1f2e:wasm-function[6]:0x67)`
  expect(describeTrap(error).guestStack).toEqual(['#5', 'a'])
})

test('a key that is too long is refused before it is decoded', () => {
  const kv = serveKv(openMemoryStore({ maxBytes: 1_000 }), { namespace: 'a', access: 'readwrite' })
  // Were it decoded, it would be refused for not being UTF-8.
  expect(kv.call('get', new Uint8Array(8_000_000).fill(0xff))).toMatchObject({
    problem: 'invalid',
    message: expect.stringContaining('8000000 bytes'),
  })
})
