import { writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, expect } from 'vitest'
import { begin } from './mutant-switch.ts'

/* Runs with each test file in a copy of the sources: notes which of its cases runs. */

const ROOT = join(import.meta.dirname, '../..')

const note = (running: string) => writeFileSync(join(ROOT, 'test-hits', 'test'), running)
const file = () => relative(ROOT, expect.getState().testPath ?? '')

beforeAll(() => {
  note(file())
  begin(file())
})

beforeEach(({ task }) => {
  note(`${file()} ${task.id}`)
  begin(`${file()} ${task.id}`)
})

afterEach(() => {
  note(file())
  begin(file())
})

afterAll(() => {
  note('')
  begin('')
})
