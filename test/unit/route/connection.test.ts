import { EventEmitter } from 'node:events'
import { Socket } from 'node:net'
import { expect, onTestFinished, test, vi } from 'vitest'
import { Connection } from '../../../src/route/websocket/connection.ts'

const LIMITS = {
  ...{ bodyLimit: 1_000, streamBuffer: 1_000, websocketPingMs: 0, websocketIdleMs: 0 },
  ...{ unreadTimeoutMs: 1_000, requestTimeoutMs: 1_000 },
}

test('a connection is read no more while messages wait, and again when half of them are taken', async () => {
  const socket = Object.assign(new EventEmitter(), { readyState: 1, pause: vi.fn(), resume: vi.fn() })
  const connection = new Connection(socket as never, new Socket(), LIMITS, undefined)
  onTestFinished(() => void socket.emit('close', 1000))
  const calls = () => [socket.pause.mock.calls.length, socket.resume.mock.calls.length]
  const receive = () => socket.emit('message', Buffer.alloc(122), true) // 250 bytes with what it takes besides
  for (let count = 0; count < 4; count++) receive()
  expect(calls()).toEqual([0, 0])
  receive()
  receive()
  expect(calls()).toEqual([1, 0])
  for (let count = 0; count < 3; count++) await connection.take()
  expect(calls()).toEqual([1, 0])
  await connection.take()
  expect(calls()).toEqual([1, 1])
})
