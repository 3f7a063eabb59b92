import { execFile, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { findToolchain, rust } from '../../plugins/toolchains.ts'
import { CLI, start } from '../support/cli-process.ts'
import { blocksOf, readPage } from '../support/pages.ts'
import { pluginFile } from '../support/pdk.ts'

/*
 * docs/write/streams.md, followed by a reader with an empty folder. Servers get a free port, which curl then asks.
 */

const PAGE = 'docs/write/streams.md'

const blocks = blocksOf(PAGE)

/** The lines of the shell block that has this text. */
function shellBlock(wanted: string): readonly string[] {
  const found = blocks.find(({ language, code }) => language === 'sh' && code.includes(wanted))
  if (!found) throw new Error(`the page has no block with ${wanted}`)
  return found.code.trim().split('\n')
}

const CSV = `id,fruit\n${Array.from({ length: 50_000 }, (_, i) => `${i},${i % 2 ? 'pear' : 'fig'}\n`).join('')}`
const PEARS = CSV.split('\n').filter((line) => /id|pear/.test(line))

/** A folder with what the page names. */
function openFolder() {
  const cwd = mkdtempSync(join(tmpdir(), 'wasm-serve-page-'))
  onTestFinished(() => rmSync(cwd, { recursive: true, force: true }))
  mkdirSync(join(cwd, 'bin'))
  symlinkSync(CLI, join(cwd, 'bin/wasm-serve'))
  const streams = pluginFile('streams-rust', 'streams.wasm')
  cpSync(streams, join(cwd, 'plugins/streams-rust/streams.wasm'))
  cpSync(streams, join(cwd, 'streams.wasm'))
  cpSync(pluginFile('streams-rust', 'src/stream.rs'), join(cwd, 'plugins/streams-rust/src/stream.rs'))
  writeFileSync(join(cwd, 'big.iso'), CSV)
  writeFileSync(join(cwd, 'all.csv'), CSV)
  return cwd
}

/** Starts the server of a line. @returns its address. */
async function serve(line: string, cwd: string): Promise<string> {
  const [, ...args] = line.split(' ')
  return start([...args, '--port', '0'], {}, { cwd }).listening()
}

function environment(cwd: string) {
  return { ...process.env, PATH: `${join(cwd, 'bin')}${delimiter}${process.env.PATH}` }
}

async function shell(line: string, cwd: string, url = ''): Promise<string> {
  const here = line.replace('localhost:8080', url).replace(/^curl /, 'curl -sS ')
  return (await promisify(execFile)('bash', ['-c', here], { cwd, env: environment(cwd) })).stdout
}

test.each([
  ['hash', `${createHash('sha256').update(CSV).digest('hex')} ${CSV.length}\n`],
  ['filter', `${PEARS.join('\n')}\n`],
])('the example %s answers as the page says', async (name, answer) => {
  const cwd = openFolder()
  const [server = '', client = ''] = shellBlock(`streams.wasm ${name}`)
  expect((await shell(client, cwd, await serve(server, cwd))) === answer).toBe(true)
})

test('the example count shows its events as they come', async () => {
  const cwd = openFolder()
  const [server = '', client = ''] = shellBlock('streams.wasm count')
  const url = await serve(server, cwd)
  const curl = spawn('bash', ['-c', `exec ${client.replace('localhost:8080', url)} -sS`])
  onTestFinished(() => void curl.kill('SIGKILL'))
  let all = ''
  while (!all.includes('id: 2')) all += String((await once(curl.stdout, 'data'))[0])
  expect(all).toMatch(/^event: count\nid: 1\ndata: 1\n\nevent: count\nid: 2/)
})

test('without HTTP the filter pipes', async () => {
  const cwd = openFolder()
  const [, line = ''] = /^`(wasm-serve call streams\.wasm filter .*)`/m.exec(readPage(PAGE)) ?? []
  await shell(line.replace('--stdin', '--stdin --config keep=pear'), cwd)
  expect(await shell('cat some.csv', cwd)).toBe(`${PEARS.join('\n')}\n`)
})

const title = 'the plug-in of the page is built, and sends each line back at once'
if ((await findToolchain(rust)) === undefined) test.skip(`${title}: ${rust.name} is missing`)
else
  test(title, async () => {
    const cwd = openFolder()
    for (const line of shellBlock('wasm-serve new rust')) await shell(line, cwd)
    const source = blocks.find(({ language }) => language === 'rust')?.code ?? ''
    writeFileSync(join(cwd, 'capitals/src/lib.rs'), source)
    const [build = '', server = '', client = ''] = shellBlock('capitals/build.sh')
    await shell(build, cwd)
    const url = await serve(server, cwd)
    const curl = spawn('bash', ['-c', `exec ${client.replace('localhost:8080', url)} -sS`])
    onTestFinished(() => void curl.kill('SIGKILL'))
    for (const line of ['one\n', 'two\n']) {
      curl.stdin.write(line)
      let all = ''
      while (all.length < line.length) all += String((await once(curl.stdout, 'data'))[0])
      expect(all).toBe(line.toUpperCase())
    }
    curl.stdin.end()
    expect(await text(curl.stdout)).toBe('')
  }, 600_000)
