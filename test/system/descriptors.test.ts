import { readdirSync, statSync } from 'node:fs'
import process from 'node:process'
import { expect, onTestFinished, test } from 'vitest'
import { FD_FOLDER, watchDescriptors } from '../../src/platform/descriptors.ts'
import { keepLog } from '../support/instance.ts'

/** Whether the system tells the number of descriptors (Linux 6.2 and later). */
const isTold = process.platform === 'linux' && statSync(FD_FOLDER).size > 0

test.runIf(isTold)('descriptors in use are counted without taking one', async () => {
  const [used, listed] = await new Promise<[number, number]>((resolve) => {
    const warn = ({ used }: { readonly used: number }) => resolve([used, readdirSync(FD_FOLDER).length])
    onTestFinished(watchDescriptors({ ...keepLog(), warn } as never, 1_000_000_000))
  })
  expect(used).toBe(listed - 1) // the list takes one
})
