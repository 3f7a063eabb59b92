import { expect, test } from 'vitest'
import { explain } from '../../../src/cli/explain.ts'
import { Secrets } from '../../../src/observe/log/secrets.ts'

const coded = (code: string, fields: object = {}) => Object.assign(new Error('said so'), { code, ...fields })

test.each([
  [
    coded('ERR_ACCESS_DENIED', { permission: 'FileSystemRead' }),
    'wasm-serve: Node.js was started with --permission and without FileSystemRead: said so (ERR_ACCESS_DENIED)\n',
  ],
  [coded('EACCES'), 'wasm-serve: the system denied permission: said so (EACCES)\n'],
])('%s is explained in one line', (error, text) => {
  expect(explain(error, new Secrets())).toBe(text)
})

test('any other error is a bug, with its stack', () => {
  const text = explain(coded('EOTHER'), new Secrets())
  expect(text).toContain('WASM_SERVE_INTERNAL_ERROR')
  expect(text).toContain('explain.test.ts')
})
