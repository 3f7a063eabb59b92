import { Socket } from 'node:net'
import { expect, test } from 'vitest'
import { holdReading, releaseReading } from '../../../src/platform/node-workarounds.ts'

test('a connection that is held is not resumed by others, and is when it is released', () => {
  const socket = new Socket()
  holdReading(socket)
  socket.resume()
  expect(socket.isPaused()).toBe(true)
  releaseReading(socket)
  expect(socket.isPaused()).toBe(false)
})

test('a connection whose client reads no answers is left to Node, which would fail if data came', () => {
  const socket = Object.assign(new Socket(), { _paused: true })
  holdReading(socket)
  releaseReading(socket)
  expect(socket.isPaused()).toBe(true)
})
