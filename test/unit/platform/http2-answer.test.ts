import { Duplex } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { sendWhole } from '../../../src/platform/http2-answer.ts'

/** A stream of HTTP/2 without a network, and what was sent on it. */
function openStream(state: { rstCode?: number; session?: { destroyed: boolean } | undefined }) {
  const sent: unknown[] = []
  const errors: Error[] = []
  const stream = new Duplex({
    read: () => undefined,
    write: (chunk: Buffer, _, done) => {
      sent.push(chunk.toString())
      done()
    },
  })
  Object.assign(stream, {
    rstCode: 0,
    session: { destroyed: false },
    respond: (headers: object) => sent.push(headers),
    ...state,
  })
  stream.on('error', (error) => errors.push(error))
  const response = { stream, end: () => sent.push('end of the response') }
  return { stream, response: response as never, sent, errors }
}

const HEADERS = { ':status': 200 }

test('an answer is sent whole, and its stream is destroyed a turn later', async () => {
  const { stream, response, sent, errors } = openStream({})
  sendWhole(response, HEADERS, 'body', 'utf8')
  expect(sent).toEqual([HEADERS, 'body', 'end of the response'])
  stream.destroy()
  expect(stream.destroyed).toBe(false)
  await turn()
  expect([stream.destroyed, errors]).toEqual([true, []])
})

test.each([
  ['that was reset', { rstCode: 8 }],
  ['of a connection that is gone', { session: { destroyed: true } }],
  ['that has left its connection', { session: undefined }],
])('a stream %s is destroyed at once', (_what, state) => {
  const { stream, response } = openStream(state)
  sendWhole(response, HEADERS, 'body', 'utf8')
  stream.destroy()
  expect(stream.destroyed).toBe(true)
})

test('a stream that fails is destroyed at once, with its error', async () => {
  const { stream, response, errors } = openStream({})
  sendWhole(response, HEADERS, 'body', 'utf8')
  const failure = new Error('reset')
  stream.destroy(failure)
  expect(stream.destroyed).toBe(true)
  await turn()
  expect(errors).toEqual([failure])
})

test('nothing is sent on a stream that is over', () => {
  const { stream, response, sent } = openStream({})
  stream.destroy()
  sendWhole(response, HEADERS, 'body', 'utf8')
  expect(sent).toEqual([])
})
