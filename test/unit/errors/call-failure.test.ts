import { expect, test } from 'vitest'
import { fromFailure, toFailure } from '../../../src/errors/call-failure.ts'
import { InstanceStartError } from '../../../src/errors/errors.ts'
import { explainLimit } from '../../../src/platform/system-errors.ts'

const crossed = (error: unknown) => fromFailure(JSON.parse(JSON.stringify(toFailure(error))))

test('a limit of the system is still known when an error has crossed threads and processes', () => {
  const limit = Object.assign(new Error('open /a'), { code: 'EMFILE' })
  const named = new InstanceStartError('hello', 'too many open files', { cause: limit })
  const placed = new InstanceStartError('hello', 'wasm-serve.json:1:1', { cause: named })
  expect(explainLimit(crossed(placed))).toContain('too many open files')
  expect(explainLimit(crossed(crossed(placed)))).toContain('too many open files')
})

test('causes of one another without an end are cut', () => {
  const error = new Error('round')
  error.cause = error
  expect(crossed(error).message).toBe('Internal server error')
})
