import { EventEmitter } from 'node:events'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import {
  type BusyConnection,
  cutUnread,
  limitUnread,
  logDrops,
  trackConnections,
  trackTlsConnections,
} from '../../../src/server/connections.ts'
import { keepLog } from '../../support/instance.ts'

/** A server that nobody connects to. */
const openServer = () => new EventEmitter()

/** A connection without a network. */
const socketOf = (port: number) =>
  Object.assign(new EventEmitter(), {
    remoteAddress: '192.0.2.1',
    remotePort: port,
    destroySoon: () => undefined,
  })

describe('connections', () => {
  test('are known until they are closed', () => {
    const server = openServer()
    const connections = trackConnections(server as never)
    const [one, two] = [socketOf(1), socketOf(2)]
    server.emit('connection', one)
    server.emit('connection', two)
    expect([...connections.keys()]).toEqual([one, two])
    one.emit('close')
    expect([...connections.keys()]).toEqual([two])
  })

  test('with TLS are one each, also if a peer has a new one before its last one is closed', () => {
    const server = openServer()
    const connections = trackTlsConnections(server as never)
    const [before, accepted, secure] = [socketOf(1), socketOf(1), socketOf(1)]
    server.emit('connection', before)
    server.emit('connection', accepted)
    before.emit('close')
    server.emit('secureConnection', secure)
    expect([...connections.keys()]).toEqual([secure])
  })

  test('with TLS are the accepted one until the handshake is complete, and then that of requests', () => {
    const server = openServer()
    const connections = trackTlsConnections(server as never)
    const [accepted, other, secure, next] = [socketOf(1), socketOf(2), socketOf(1), socketOf(1)]
    server.emit('connection', accepted)
    server.emit('connection', other)
    server.emit('secureConnection', secure)
    expect([...connections.keys()]).toEqual([other, secure])
    for (const socket of [secure, accepted, other]) socket.emit('close')
    expect(connections.size).toBe(0)
    server.emit('secureConnection', next) // another client from the same port
    expect([...connections.keys()]).toEqual([next])
  })
})

describe('with the clock of a test', () => {
  beforeEach(() => void vi.useFakeTimers())
  afterEach(() => void vi.useRealTimers())

  /** A server that limits what these connections take. */
  function limited(connections: readonly BusyConnection[], max: number) {
    const server = openServer()
    const log = keepLog()
    limitUnread(server as never, () => connections, log as never, max)
    server.emit('listening')
    return { server, log }
  }

  /** A connection whose client reads. */
  const reading = (port: number, writableLength: number) => {
    const handle = { bytesWritten: 0, writeQueueSize: 0 }
    return Object.assign(socketOf(port), { writableLength, _handle: handle, destroy: vi.fn() })
  }

  test('a client that reads nothing of its answer is cut off, and neither one that reads nor one that has it all', () => {
    const server = openServer()
    const log = keepLog()
    const [stuck, slow, idle] = [reading(1, 100), reading(2, 100), reading(3, 0)]
    const connections = new Map([stuck, slow, idle].map((socket) => [socket, undefined]))
    cutUnread(server as never, connections as never, 1_000, log as never)
    server.emit('listening')
    for (let times = 0; times < 4; times++) {
      slow._handle.bytesWritten++
      vi.advanceTimersByTime(500)
    }
    const cut = [stuck, slow, idle].map(({ destroy }) => destroy.mock.calls.length > 0)
    expect(cut).toEqual([true, false, false])
    expect(log.lines).toEqual(
      Array(2).fill(expect.objectContaining({ level: 'debug', fields: { bytes: 100 } })),
    )
    server.emit('close')
  })

  const takes = (bytes: number, ended: number[]): BusyConnection => ({
    bytes,
    end: () => void ended.push(bytes),
  })

  test('connections that take exactly what they may are left alone, and nothing is said of them', () => {
    const ended: number[] = []
    const { log } = limited(
      [100, 300, 200].map((bytes) => takes(bytes, ended)),
      600,
    )
    vi.advanceTimersByTime(1_000)
    expect([ended, log.lines]).toEqual([[], []])
  })

  test('of connections that take more, those that take most are ended, until the others may stay', () => {
    const ended: number[] = []
    const { log } = limited(
      [100, 300, 200, 400].map((bytes) => takes(bytes, ended)),
      599,
    )
    vi.advanceTimersToNextTimer()
    expect(ended).toEqual([400, 300])
    expect(log.lines).toMatchObject([{ level: 'warn', fields: { ended: 2, limit: 599 } }])
  })

  test('after the end of its server nothing is ended', () => {
    const ended: number[] = []
    const { server } = limited([takes(2, ended)], 1)
    server.emit('close')
    vi.advanceTimersByTime(1_000)
    expect([ended, vi.getTimerCount()]).toEqual([[], 0])
  })

  test('connections beyond the limit are logged with their number, once a second', () => {
    const server = openServer()
    const log = keepLog()
    logDrops(server as never, 7, log as never)
    for (const count of [3, 1]) {
      for (let dropped = 0; dropped < count; dropped++) server.emit('drop')
      vi.advanceTimersByTime(1_000)
    }
    expect(log.lines.map(({ fields }) => fields)).toEqual([
      { dropped: 3, limit: 7 },
      { dropped: 1, limit: 7 },
    ])
  })
})
