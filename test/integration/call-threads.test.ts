import type { Worker } from 'node:worker_threads'
import { expect, onTestFinished, test } from 'vitest'
import { run } from '../support/cli.ts'
import { guest } from '../support/guest.ts'

const call = async (...words: string[]) => {
  const { code, stdout } = await run(['call', guest('echo'), '-i', 'a', ...words])
  return [code, stdout]
}

test('a call in a thread starts no other one in reserve', async () => {
  expect(await call('--workers', '1')).toEqual([0, 'a']) // what is shared by all commands has started
  const threads: Worker[] = []
  const note = (thread: Worker) => threads.push(thread)
  process.on('worker', note)
  onTestFinished(() => void process.off('worker', note))
  expect(await call('--workers', '1')).toEqual([0, 'a'])
  expect(threads).toHaveLength(1)
  expect(await call()).toEqual([0, 'a'])
  expect(threads).toHaveLength(1)
})
