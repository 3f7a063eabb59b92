import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { run, start } from '../support/cli-process.ts'
import { guest } from '../support/guest.ts'
import { codeSection, list, moduleOf, section } from '../support/module-bytes.ts'

/** A list in a global, that grows without end outside of the guest's memory; and a function that does nothing. */
const GUEST = moduleOf(
  section(1, list([0x5f, 1, 0x63, 0, 0], [0x60, 0, 1, 0x7f])), // (struct (field (ref null 0))), () -> i32
  section(3, list(1, 1)),
  section(6, list([0x63, 0, 1, 0xd0, 0, 0x0b])), // (mut (ref null 0)), null
  section(7, list([4, ...Buffer.from('grow'), 0, 0], [2, ...Buffer.from('ok'), 0, 1])),
  codeSection(
    { code: [0x03, 0x40, 0x23, 0, 0xfb, 0, 0, 0x24, 0, 0x0c, 0, 0x0b, 0x41, 0] }, // loop: global = new (global)
    { code: [0x41, 0] },
  ),
)

function folderWith(bytes: Uint8Array): string {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-gc-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  writeFileSync(join(folder, 'gc.wasm'), bytes)
  return folder
}

test('a guest with garbage-collected types is refused before it is compiled', async () => {
  const { code, stderr } = await run([join(folderWith(GUEST), 'gc.wasm'), '0'])
  expect(code).toBe(2)
  expect(stderr).toContain('--allow-gc')
})

test('with --allow-gc it has a process of its own, and no other engine', async () => {
  const path = join(folderWith(GUEST), 'gc.wasm')
  const inline = await run([path, 'ok', '0', '--allow-gc', '--engine', 'inline'])
  expect([inline.code, inline.stderr]).toEqual([2, expect.stringContaining('subprocess')])
  const shown = await run(['inspect', path, '--allow-gc'])
  expect([shown.code, shown.stdout]).toEqual([0, expect.stringContaining('in a process')])
})

const knowsGc = WebAssembly.validate(GUEST as Uint8Array<ArrayBuffer>)

test.skipIf(!knowsGc)('one whose heap overflows costs its own call (Node.js 22 and later)', async () => {
  const folder = folderWith(GUEST)
  const args = [folder, guest('echo'), '--allow-gc', '--timeout', '60000', '--workers', '1', '--port', '0']
  const url = await start(args).listening()
  const post = (path: string) => fetch(url + path, { method: 'POST', body: 'hello' })
  expect((await post('/gc/ok')).status).toBe(200)
  const late = post('/gc/grow')
  let isOver = false
  void late.then(() => {
    isOver = true
  })
  while (!isOver) expect(await (await post('/echo')).text()).toBe('hello')
  const answer = await late
  expect([answer.status, await answer.json()]).toEqual([
    500,
    expect.objectContaining({ code: 'WASM_SERVE_WORKER_LOST' }),
  ])
  expect((await post('/gc/ok')).status).toBe(200)
})
