import { setImmediate as turn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { Mutex } from '../../../src/platform/mutex.ts'

test('work runs one at a time, in the order in which it asked, also after a failure', async () => {
  const mutex = new Mutex()
  const events: string[] = []
  const work = async (name: string) => {
    events.push(`${name} begins`)
    await turn()
    events.push(`${name} ends`)
    if (name === 'b') throw new Error(name)
    return name
  }
  const all = ['a', 'b', 'c'].map((name) => mutex.run(() => work(name)))
  expect(await Promise.allSettled(all)).toMatchObject([
    { value: 'a' },
    { reason: new Error('b') },
    { value: 'c' },
  ])
  expect(events).toEqual(['a begins', 'a ends', 'b begins', 'b ends', 'c begins', 'c ends'])
})

test('it is busy from the first request until the last work has ended', async () => {
  const mutex = new Mutex()
  expect(mutex.isBusy).toBe(false)
  const first = mutex.enter()
  const second = mutex.enter()
  expect(mutex.isBusy).toBe(true)
  ;(await first)()
  const leave = await second
  expect(mutex.isBusy).toBe(true)
  leave()
  expect(mutex.isBusy).toBe(false)
  await mutex.idle
  await mutex.run(async () => undefined)
  expect(mutex.isBusy).toBe(false)
})

test('work that is not waited for any longer does not begin, and does not let others in early', async () => {
  const mutex = new Mutex()
  const leave = await mutex.enter()
  await expect(mutex.enter(AbortSignal.abort(new Error('stopped')))).rejects.toThrow('stopped')
  let isIn = false
  const third = mutex.run(async () => {
    isIn = true
  })
  await turn()
  expect(isIn).toBe(false)
  leave()
  await third
  expect(isIn).toBe(true)
})
