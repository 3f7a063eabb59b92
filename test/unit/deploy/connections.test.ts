import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { expect, onTestFinished, test, vi } from 'vitest'
import { type ConnectionTaker, listenForProcesses } from '../../../src/deploy/processes/connections.ts'

async function listening(maxConnections = 100) {
  const listener = await listenForProcesses({ host: '127.0.0.1', port: 0, maxConnections })
  onTestFinished(() => listener.end())
  const port = Number(new URL(listener.url).port)
  return {
    listener,
    async open(): Promise<Socket> {
      const client = connect(port, '127.0.0.1')
      client.on('error', () => undefined)
      onTestFinished(() => void client.destroy())
      await once(client, 'connect')
      return client
    },
  }
}

/** A process that takes connections when the test says so. */
class Taker implements ConnectionTaker {
  connections = 0
  readonly offers: { readonly socket: Socket; take(): void; lose(): void; die(): void }[] = []
  #offered: () => void = () => undefined

  take(socket: Socket): Promise<boolean> {
    return new Promise((resolve, reject) => {
      const take = () => {
        this.connections++
        resolve(true)
      }
      const lose = () => resolve(false)
      this.offers.push({ socket, take, lose, die: () => reject(new Error('it has ended')) })
      this.#offered()
    })
  }

  async offered(count: number): Promise<void> {
    while (this.offers.length < count) await new Promise<void>((resolve) => (this.#offered = resolve))
  }
}

test('connections wait while there is no process', async () => {
  const { listener, open } = await listening()
  await Promise.all([open(), open()])
  const taker = new Taker()
  listener.add(taker)
  await taker.offered(1)
  taker.offers[0]?.take()
  await taker.offered(2)
  taker.offers[1]?.take()
})

test('a process gets one connection at a time, and the one with the fewest gets the next', async () => {
  const { listener, open } = await listening()
  const [one, two] = [new Taker(), new Taker()]
  one.connections = 2
  for (const taker of [one, two]) listener.add(taker)
  await open()
  await two.offered(1)
  await open()
  await one.offered(1) // the other has not taken its own yet
  two.offers[0]?.take()
  await open()
  await two.offered(2)
  one.offers[0]?.take()
  two.offers[1]?.take()
  expect([one.connections, two.connections]).toEqual([3, 2])
})

test('a connection that a process has not taken when it ends goes to another', async () => {
  const { listener, open } = await listening()
  const [one, two] = [new Taker(), new Taker()]
  listener.add(one)
  await open()
  await one.offered(1)
  listener.add(two)
  one.offers[0]?.die()
  await two.offered(1)
  expect(two.offers[0]?.socket).toBe(one.offers[0]?.socket)
  await open()
  two.offers[0]?.take()
  await two.offered(2)
  two.offers[1]?.take()
  expect(one.offers).toHaveLength(1)
})

test('a connection that did not arrive goes to another process first, and to the same again if there is none', async () => {
  const { listener, open } = await listening()
  const [one, two] = [new Taker(), new Taker()]
  listener.add(one)
  await open()
  await one.offered(1)
  one.offers[0]?.lose()
  await one.offered(2)
  listener.add(two)
  one.offers[1]?.lose()
  await two.offered(1)
  expect(two.offers[0]?.socket).toBe(one.offers[0]?.socket)
  two.offers[0]?.take()
  await open()
  await two.offered(2) // although it has more connections
  two.offers[1]?.take()
})

test('connections beyond the maximum are closed while they wait', async () => {
  const { open } = await listening(2)
  await Promise.all([open(), open()])
  const third = await open()
  await once(third.resume(), 'close')
})

test('the end comes when the last connection is taken, and waits for nothing more', async () => {
  const { listener, open } = await listening()
  const taker = new Taker()
  listener.add(taker)
  await open()
  await taker.offered(1)
  await open()
  vi.useFakeTimers({ toFake: ['setTimeout'] }) // the time of those that take none never passes
  onTestFinished(() => void vi.useRealTimers())
  let hasEnded = false
  const ended = listener.end().then(() => {
    hasEnded = true
  })
  while (vi.getTimerCount() === 0) await new Promise(setImmediate) // it listens no more
  taker.offers[0]?.take()
  await taker.offered(2)
  expect(hasEnded).toBe(false)
  taker.offers[1]?.take()
  await ended
})

test('the end hands over the last connections, and destroys those that no process takes', async () => {
  const { listener, open } = await listening()
  const taker = new Taker()
  listener.add(taker)
  await open()
  await taker.offered(1)
  const second = await open()
  const ended = listener.end()
  taker.offers[0]?.take()
  await taker.offered(2)
  taker.offers[1]?.die()
  await ended
  await once(second.resume(), 'close')
})
