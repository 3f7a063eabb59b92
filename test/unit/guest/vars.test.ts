import { expect, test } from 'vitest'
import { openVars, VarsFull } from '../../../src/guest/vars.ts'

const bytes = (length: number) => new Uint8Array(length)

test('the limit counts the bytes of values, and not of names', () => {
  const vars = openVars(1_024)
  vars.set('a name', bytes(1_024))
  vars.set('a name', bytes(1_024))
  expect(() => vars.set('a name', bytes(1_025))).toThrow(VarsFull)
  expect(() => vars.set('another', bytes(1))).toThrow(VarsFull)
  expect(vars.get('a name')?.length).toBe(1_024)
  vars.set('a name', bytes(1_000))
  vars.set('another', bytes(24))
  vars.delete('a name')
  vars.delete('a name')
  vars.set('another', bytes(1_024))
})

test('a limit of 0 refuses all variables, also empty ones', () => {
  const vars = openVars(0)
  expect(() => vars.set('a', bytes(0))).toThrow(expect.objectContaining({ limit: 0 }))
  vars.delete('a')
  expect(vars.get('a')).toBeUndefined()
})

test('names have a limit of their own, which deleting makes room in', () => {
  const vars = openVars(1)
  const long = (index: number) => `${index}`.padEnd(1_000 - 48)
  for (let index = 0; index < 65; index++) vars.set(long(index), bytes(0))
  expect(() => vars.set(long(65), bytes(0))).toThrow(VarsFull)
  vars.set(long(64), bytes(1))
  vars.delete(long(0))
  vars.set(long(65), bytes(0))
  vars.clear()
  for (let index = 0; index < 65; index++) vars.set(long(index), bytes(0))
  vars.set('x'.repeat(65_536 - 65 * 1_000 - 48), bytes(0))
  expect(() => vars.set('', bytes(0))).toThrow(VarsFull)
})
