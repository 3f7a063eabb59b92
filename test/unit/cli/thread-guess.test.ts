import { expect, test } from 'vitest'
import { asksForThread } from '../../../src/cli/thread-guess.ts'

test.each([
  ['a.wasm --workers 1', {}, true],
  ['a.wasm --workers=2', {}, true],
  ['serve a.wasm --workers 2', {}, true],
  ['a.wasm', { WASM_SERVE_WORKERS: '1' }, true],
  ['a.wasm', {}, false],
  ['a.wasm --workers 0', { WASM_SERVE_WORKERS: '1' }, false],
  ['a.wasm --workers', {}, false],
  ['a.wasm --workers 1 --processes 2', {}, false],
  ['a.wasm --workers 1', { WASM_SERVE_PROCESSES: '2' }, false],
  ['a.wasm --workers 1 --runtime sdk', {}, false],
  ['bench a.wasm --workers 1', {}, false],
])('a thread is guessed from %s with %j', (words, variables, expected) => {
  expect(asksForThread(words.split(' '), variables)).toBe(expected)
})
