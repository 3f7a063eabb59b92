import { expect, test } from 'vitest'
import { cancelRequest } from '../../../src/deploy/processes/agent-requests.ts'

/** A process with running requests of the key. @param count - undefined: it is stopped, and never answers. */
function processWith(count: number | undefined) {
  const cancelled: string[] = []
  return {
    cancelled,
    countRequests: () =>
      count === undefined ? new Promise<number>(() => undefined) : Promise.resolve(count),
    cancelRequest: (key: string) => void cancelled.push(key),
  }
}

test('a process that does not answer keeps no request of another from being cancelled', async () => {
  const [stopped, idle, running] = [processWith(undefined), processWith(0), processWith(1)]
  await cancelRequest('a', [stopped, idle, running])
  expect([stopped, idle, running].map(({ cancelled }) => cancelled)).toEqual([[], [], ['a']])
})

test('of requests with the same key in several processes none is cancelled', async () => {
  const both = [processWith(1), processWith(1)]
  await cancelRequest('a', both)
  expect(both.flatMap(({ cancelled }) => cancelled)).toEqual([])
})
