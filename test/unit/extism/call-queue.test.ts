import { expect, test } from 'vitest'
import { CallQueue } from '../../../src/extism/call-queue.ts'

const REENTRANT = 'plugin is not reentrant'

test('calls run one at a time, in the order in which they were made', async () => {
  const queue = new CallQueue(true)
  expect(queue.isActive).toBe(false)
  expect(queue.begin()).toBeUndefined()
  const order: number[] = []
  const turns = [1, 2, 3].map(async (number) => {
    await queue.begin()
    order.push(number)
    queue.end()
  })
  expect(queue.isActive).toBe(true)
  queue.end()
  await Promise.all(turns)
  expect([order, queue.isActive]).toEqual([[1, 2, 3], false])
})

test('where no call can wait, a second one is refused, and may be made later', () => {
  const queue = new CallQueue(false)
  queue.begin()
  expect(() => queue.begin()).toThrow(REENTRANT)
  queue.end()
  expect(queue.begin()).toBeUndefined()
})

test('a host function cannot call its own plug-in, whichever calls begin and end meanwhile', async () => {
  const [first, second, third] = [new CallQueue(true), new CallQueue(true), new CallQueue(true)]
  const refused = (queue: CallQueue) => expect(() => queue.begin()).toThrow(REENTRANT)
  first.begin()
  const host = first.within(async () => {
    third.begin() // of another plug-in, without host functions
    third.end()
    refused(first)
    await second.within(async () => refused(second))()
    await Promise.resolve()
    refused(first)
  })
  second.begin()
  const other = second.within(async () => {
    await host()
    first.end()
    refused(second)
  })
  await other()
  second.end()
  expect(first.begin()).toBeUndefined()
})

test('a host function cannot wait for a call that waits for its own', () => {
  const [outer, inner] = [new CallQueue(true), new CallQueue(true)]
  outer.begin()
  outer.within(() => {
    inner.begin()
    inner.within(() => expect(() => outer.begin()).toThrow(REENTRANT))()
    inner.end()
  })()
  outer.end()
})

test('a call that is made outside of host functions waits, though one runs', async () => {
  const queue = new CallQueue(true)
  queue.begin()
  queue.within(() => undefined)()
  const turn = queue.begin()
  expect(turn).toBeInstanceOf(Promise)
  queue.end()
  await turn
  queue.end()
  expect(queue.isActive).toBe(false)
})
