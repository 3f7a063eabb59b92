import { expect, test } from 'vitest'
import { closeCodeOf, violationCodeOf } from '../../../src/route/websocket/close-codes.ts'

const failure = (code: string, statusCode: number) => Object.assign(new Error(), { code, statusCode })

test.each([
  ['WASM_SERVE_SHUTTING_DOWN', 503, 1001],
  ['WASM_SERVE_ENGINE_CLOSED', 503, 1001],
  ['WASM_SERVE_QUEUE_FULL', 503, 1013],
  ['WASM_SERVE_CALL_REFUSED', 400, 1008],
  ['WASM_SERVE_CALL_REFUSED', 499, 1008],
  ['WASM_SERVE_GUEST_ERROR', 400, 1011],
  ['WASM_SERVE_GUEST_TRAP', 500, 1011],
])('the failure %s with the status %d closes a WebSocket with %d', (code, status, closing) => {
  expect(closeCodeOf(failure(code, status))).toBe(closing)
})

test.each([
  ['WS_ERR_INVALID_UTF8', 1007],
  ['WS_ERR_TOO_MANY_BUFFERED_PARTS', 1008],
  ['WS_ERR_UNSUPPORTED_DATA_PAYLOAD_LENGTH', 1009],
  ['WS_ERR_UNSUPPORTED_MESSAGE_LENGTH', 1009],
  ['WS_ERR_EXPECTED_MASK', 1002],
  ['ECONNRESET', 1006],
])('after the error %s of the package ws, the closing code is %d', (code, closing) => {
  expect(violationCodeOf(failure(code, 400))).toBe(closing)
})

test('a connection that ends by an error without a code has the closing code 1006', () => {
  expect(violationCodeOf(new Error())).toBe(1006)
})
