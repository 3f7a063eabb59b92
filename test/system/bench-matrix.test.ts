import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { run } from '../support/cli.ts'
import { guest } from '../support/guest.ts'

/** Notes its arguments, and answers as `serve` does until it was asked 20 times. Then its answers are wrong. */
const PROGRAM = `#!${process.execPath}
const { appendFileSync } = require('node:fs')
let asked = 0
process.on('disconnect', () => process.exit())
process.on('message', () => process.send(1))
appendFileSync(__dirname + '/arguments', process.argv.slice(4).join(' ') + '\\n')
const server = require('node:http').createServer((request, response) => {
  request.resume().on('end', () => response.end(++asked > 20 ? 'wrong' : 'right'))
})
server.listen(0, '127.0.0.1', () => console.log('it listens on http://127.0.0.1:' + server.address().port))
`

test.skipIf(process.platform === 'win32')(
  'the matrix serves the plug-in in each way, and ends with 1 if responses were wrong',
  async () => {
    const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-matrix-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const program = join(folder, 'program')
    writeFileSync(program, PROGRAM)
    chmodSync(program, 0o755)
    const words = ['bench', guest('echo'), '-c', '2', '-d', '0.05', '--matrix', '--json']
    const { code, stdout, stderr } = await run(words, {}, { program: [program] })
    expect([code, stderr]).toEqual([1, expect.stringContaining('WASM_SERVE_BENCH_ANSWERS_WRONG')])
    const serve = `serve ${guest('echo')} --function echo`
    expect(readFileSync(join(folder, 'arguments'), 'utf8').trimEnd().split('\n')).toEqual([
      `${serve} --runtime kernel --port 0`,
      `${serve} --runtime kernel --isolation fresh --port 0`,
      `${serve} --runtime sdk --port 0`,
      `${serve} --runtime kernel --workers 1 --port 0`,
      `${serve} --runtime kernel --workers 2 --port 0`,
    ])
    const { variants, connections, seconds } = JSON.parse(stdout)
    expect([connections, seconds]).toEqual([2, 0.05])
    expect(variants.map(({ name }: { name: string }) => name)).toEqual([
      'kernel',
      'kernel, fresh instances',
      'sdk',
      'kernel, 1 worker',
      'kernel, 2 workers',
    ])
    for (const { wrong } of variants) expect(wrong).toBeGreaterThan(0)
  },
)
