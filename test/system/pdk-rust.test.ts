import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { describeHttpGuest } from '../support/http-guest.ts'
import { buildPlugin, describeCountVowels, describeHello, pluginFile } from '../support/pdk.ts'

const hello = await buildPlugin('hello', 'hello.wasm')
const countVowels = await buildPlugin('count-vowels-rust', 'count-vowels.wasm')
const http = await buildPlugin('http-rust', 'http.wasm')

describeHello('hello, built again', hello)
describeCountVowels('count-vowels-rust, built again', countVowels)
describeHttpGuest('http-rust, built again', http)

test.each([
  ['hello', hello, pluginFile('hello', 'hello.wasm')],
  ['count-vowels-rust', countVowels, pluginFile('count-vowels-rust', 'count-vowels.wasm')],
  ['http-rust', http, pluginFile('http-rust', 'http.wasm')],
])('%s is built to the committed bytes again, if by the compiler that made those', (_name, built, path) => {
  const committed = readFileSync(path)
  expect(compilerOf(committed)).toMatch(/^[0-9a-f]{40}$/)
  if (compilerOf(built) === compilerOf(committed)) expect(committed.equals(built)).toBe(true)
})

/**
 * The commit of the Rust compiler, which stands in the paths of its library, which stand in the panic messages. Another
 * compiler makes other bytes; so does this one where the library's sources are installed, whose paths these are then.
 */
function compilerOf(wasm: Uint8Array): string | undefined {
  return /rustc\/([0-9a-f]{40})/.exec(Buffer.from(wasm).toString('latin1'))?.[1]
}
