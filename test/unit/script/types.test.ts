import { describe, expect, test } from 'vitest'
import { canStripTypes, withoutTypes } from '../../../src/script/types.ts'

describe.skipIf(!canStripTypes())('without esbuild', () => {
  test('types become spaces, so that lines and columns stay', () => {
    expect(withoutTypes('const a: number = 1')).toBe('const a         = 1')
  })

  test.each([
    ['enums', 'enum A { B }'],
    ['namespaces', 'namespace A { export const b = 1 }'],
    ['decorators', '@decorated\nclass A {}'],
  ])('%s are left to esbuild', (_, text) => {
    expect(withoutTypes(text)).toBeUndefined()
  })

  test('what is no TypeScript is refused, with its reason', () => {
    expect(withoutTypes('const a: number =')).toMatchObject({
      message: expect.stringMatching(/^SyntaxError: \S/),
      missing: [],
    })
  })
})
