import { expect, test } from 'vitest'
import {
  ChangeRefusedError,
  DownloadRefusedError,
  GuestError,
  InternalError,
  OptionsError,
  RouteConflictError,
} from '../../../src/errors/errors.ts'
import { errorFields } from '../../../src/errors/failure.ts'

const LONG = 'x'.repeat(200_000)

test('a long text in a message is cut, and keeps its end', () => {
  const cause = new Error('why')
  const error = new DownloadRefusedError(`data:,${LONG}`, `it is redirected to data:,${LONG}: only https`, {
    cause,
  })
  expect(error.message.length).toBeLessThan(2_500)
  expect(error.message).toMatch(
    /^Cannot download data:,x+\.\.\.x+: it is redirected to data:,x+\.\.\.x+: only https$/,
  )
  expect(error).toBeInstanceOf(DownloadRefusedError)
  expect(error).not.toBeInstanceOf(RouteConflictError)
  expect(error).toMatchObject({ code: 'WASM_SERVE_DOWNLOAD_REFUSED', cause })
})

test('of a list each line is cut, and then the list', () => {
  const { message } = new OptionsError(`  a: ${LONG}: wrong\n  b: wrong`)
  expect(message.split('\n').map((line) => line.length)).toEqual([16, 1_003, 10])
  expect(new OptionsError('  a: wrong\n'.repeat(50_000)).message.length).toBeLessThan(66_000)
})

test("a guest's message is not cut: it is the answer", () => {
  expect(new GuestError(LONG).message).toBe(LONG)
})

test('an expected error is logged without a stack, a bug with it', () => {
  expect(errorFields(new ChangeRefusedError('processes are being replaced'))).toEqual({
    code: 'WASM_SERVE_CHANGE_REFUSED',
    reason: 'Nothing was changed: processes are being replaced',
  })
  for (const err of [new InternalError(), new Error('a bug'), 'a text'])
    expect(errorFields(err)).toEqual({ err })
})
