import { execFile, spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test, vi } from 'vitest'
import { CLI, start } from '../support/cli-process.ts'
import { extismGuest } from '../support/extism-guest.ts'
import { ROOT, userPackage } from '../support/user-package.ts'

vi.setConfig({ testTimeout: 120_000 }) // each test starts Node.js anew, some the compiler of Go

const folder = userPackage()
mkdirSync(join(folder, 'bin'))
symlinkSync(CLI, join(folder, 'bin/wasm-serve'))
mkdirSync(join(folder, 'data'))
writeFileSync(join(folder, 'manifest.json'), JSON.stringify({ wasm: [{ path: 'count.wasm' }] }))
const simplismAnswer = JSON.stringify({ body: 'hello from simplism', header: {}, code: 200 })
writeFileSync(
  join(folder, 'hello-simplism.wasm'),
  extismGuest(`
    (data (i32.const 0) ${JSON.stringify(simplismAnswer)})
    (func (export "handle") (call $answer (call $text (i32.const 0) (i32.const ${simplismAnswer.length}))))`),
)

interface Block {
  readonly language: string
  readonly code: string
}

const page = readFileSync(join(ROOT, 'docs/start/migrate.md'), 'utf8')
const blocks: Block[] = [...page.matchAll(/^```(\w+)\n(.*?)^```$/gms)].map(
  ([, language = '', code = '']) => ({
    language,
    code,
  }),
)
const codeIn = (language: string) =>
  blocks.filter((block) => block.language === language).map(({ code }) => code)

/** What the comments of a block say that it prints. */
const expectedOf = (code: string) => [...code.matchAll(/(?:#|\/\/) => (.*)$/gm)].map(([, line = '']) => line)

const PATH = `${join(folder, 'bin')}${delimiter}${process.env.PATH}`

/** Runs a line to its end, and returns what it prints. */
async function shell(line: string): Promise<string> {
  return (
    await promisify(execFile)('bash', ['-c', line], { cwd: folder, env: { ...process.env, PATH } })
  ).stdout.trim()
}

/** Starts the server of a line on a free port. */
async function serve(line: string): Promise<string> {
  const [, ...words] = JSON.parse(
    await shell(`node -p 'JSON.stringify(process.argv.slice(1))' -- ${line}`),
  ) as string[]
  const args = words.includes('8080')
    ? words.map((word) => (word === '8080' ? '0' : word))
    : [...words, '--port', '0']
  return new URL(await start(args, {}, { cwd: folder }).listening()).origin
}

const isServed = (line: string) => /^wasm-serve (?!call|check|new)/.test(line)

test('the page has blocks of each kind', () => {
  expect(codeIn('sh').length).toBeGreaterThanOrEqual(5)
  expect([codeIn('ts').length, codeIn('go').length, codeIn('yaml').length]).toEqual([2, 1, 1])
})

test.each(codeIn('sh'))('this prints what it says: %s', async (code) => {
  const [config = ''] = codeIn('yaml')
  const printed: string[] = []
  let url = ''
  for (const line of code.split('\n').filter((each) => each !== '' && !each.startsWith('#'))) {
    if (isServed(line)) url = await serve(line)
    else {
      if (line.includes('wasm-serve.yaml')) writeFileSync(join(folder, 'wasm-serve.yaml'), config)
      printed.push(await shell(line.replace('http://127.0.0.1:8080', url)))
    }
  }
  const expected = expectedOf(code)
  if (expected.length > 0) expect(printed).toEqual(expected)
})

test('the flags of call are those of its table', async () => {
  const [table = ''] = /\| flag \| difference \|\n(?:\|.*\n)+/.exec(page) ?? []
  const flags = [...table.matchAll(/^\| (.*?) \|/gm)].flatMap(
    ([, cell = '']) => cell.match(/--[a-z][\w-]*/g) ?? [],
  )
  expect(flags.length).toBe(14)
  const help = `${await shell('wasm-serve help call')}\n${await shell('wasm-serve help flags')}`
  for (const flag of flags) expect(help).toMatch(new RegExp(`\\s${flag}\\b`))
  expect(await shell(`wasm-serve call -m manifest.json count_vowels -i hello --loop 2`)).toBe(
    '{"count":2,"total":2,"vowels":"aeiouAEIOU"}{"count":2,"total":4,"vowels":"aeiouAEIOU"}',
  )
  expect(
    await shell(`wasm-serve call count.wasm -i hello --config vowels=lo --set-config '{"vowels":"e"}'`),
  ).toBe('{"count":1,"total":1,"vowels":"e"}')
})

test.each(codeIn('ts'))('this program prints what it says: %s', async (code) => {
  writeFileSync(join(folder, 'program.ts'), code)
  const { stdout } = await promisify(execFile)(process.execPath, ['--import', 'tsx', 'program.ts'], {
    cwd: folder,
  })
  expect(stdout.trim().split('\n')).toEqual(expectedOf(code))
})

const hasGo = !spawnSync('go', ['version']).error

test.skipIf(!hasGo)('the Go program that sends requests prints what it says (Go)', async () => {
  const [server = ''] = codeIn('sh').filter((code) => code.includes('--config vowels=lo'))
  const [code = ''] = codeIn('go')
  const url = await serve(server.trim())
  writeFileSync(join(folder, 'client.go'), code.replace('http://127.0.0.1:8080', url))
  expect(await shell('go run client.go')).toBe(expectedOf(code)[0])
})

test('a guest that sets an error is answered as the page says', async () => {
  const refusal = `
    (data (i32.const 0) "no")
    (func (export "refuse") (result i32) (call $error_set (call $text (i32.const 0) (i32.const 2))) (i32.const 1))`
  writeFileSync(join(folder, 'refuse.wasm'), extismGuest(refusal))
  const answer = await fetch(await serve('wasm-serve refuse.wasm'), { method: 'POST' })
  expect([answer.status, await answer.text()]).toEqual([409, 'no'])
})
