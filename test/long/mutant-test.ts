import { writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { afterAll, beforeAll, expect } from 'vitest'
import { forget } from './mutant-switch.ts'

/* Runs with each test file in a copy of the sources: notes which one runs. */

const ROOT = join(import.meta.dirname, '../..')

beforeAll(() => {
  const { testPath = '' } = expect.getState()
  writeFileSync(join(ROOT, 'test-hits', 'test'), relative(ROOT, testPath))
  forget()
})

afterAll(() => writeFileSync(join(ROOT, 'test-hits', 'test'), ''))
