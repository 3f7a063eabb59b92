import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'

/** What TypeScript says of a script in a project that has the package. */
async function compile(source: string): Promise<string> {
  const at = mkdtempSync(join(tmpdir(), 'wasm-serve-types-'))
  onTestFinished(() => rmSync(at, { recursive: true }))
  mkdirSync(join(at, 'node_modules'))
  symlinkSync(process.cwd(), join(at, 'node_modules/wasm-serve'))
  writeFileSync(join(at, 'plugin.ts'), source)
  const options = { strict: true, module: 'nodenext', lib: ['es2023', 'dom'], types: [], noEmit: true }
  writeFileSync(join(at, 'tsconfig.json'), JSON.stringify({ compilerOptions: options }))
  const tsc = promisify(execFile)(process.execPath, [
    join(process.cwd(), 'node_modules/typescript/bin/tsc'),
    '-p',
    at,
  ])
  return tsc.then(
    () => '',
    ({ stdout }) => stdout,
  )
}

test('editors know the globals of scripts, and what they import of wasm-serve', async () => {
  const source = `import type {} from 'wasm-serve/plugin'
    import { stream, StreamError } from 'wasm-serve:http'
    import { kv } from 'wasm-serve:kv'
    import { socket } from 'wasm-serve:websocket'

    declare module 'extism:host' {
      interface user {
        upper(text: PTR): PTR
      }
    }

    export function f(name: string): string {
      for (const piece of stream) stream.write(piece)
      for (const message of socket) socket.send(message)
      const { status, body } = Http.request({ url: 'https://example.com', headers: { a: 1 } })
      Var.set('status', String(status))
      const offset = Host.getFunctions().upper(Memory.fromString(name))
      Memory.find(Number(offset))?.readString()
      return (kv.get(name) ?? '') + Host.inputString() + Config.get('a') + body + new StreamError().code
    }`
  expect(await compile(source)).toBe('')
  expect(await compile(source.replace('.upper(', '.lower('))).toContain("Property 'lower' does not exist")
  expect(await compile(source.replace('kv.get(name)', 'kv.get(5)'))).toContain("'number' is not assignable")
})
