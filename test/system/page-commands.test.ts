import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { COMMANDS } from '../../src/cli/cli.ts'
import { openLmdbStore } from '../../src/guest/store/lmdb.ts'
import { CLI, run } from '../support/cli.ts'
import { extismGuest } from '../support/extism-guest.ts'
import { guestBytes } from '../support/guest.ts'
import { blocksOf, documentPages, markedYaml, pageScripts } from '../support/pages.ts'
import { pluginFile } from '../support/pdk.ts'

/** Lines that do not run here: the page (its beginning), the line, and what runs it instead or keeps it from running. */
const NOT_HERE: readonly (readonly [page: string, line: RegExp, reason: string])[] = [
  ['docs/start/tutorial.md', /./, 'test/system/tutorial.test.ts follows the page'],
  ['docs/start/migrate.md', /./, 'test/system/migrate-page.test.ts runs the page'],
  ['docs/serve/registry.md', /./, 'test/system/registry-pages.test.ts has a registry'],
  ['docs/write/streams.md', /./, 'test/system/streams-page.test.ts follows the page'],
  ['docs/protect/signatures.md', /./, 'test/system/registry-pages.test.ts has a registry'],
  ['docs/operate/fleet.md', /./, 'test/system/fleet-page.test.ts has a store'],
  [
    'docs/operate/deploy.md',
    /./,
    'nginx, permission, reuse-port and systemd have system tests, docker has test/long/image.ts',
  ],
  ['docs/operate/kubernetes.md', /./, 'test/long/kubernetes.ts has a control plane'],
  ['docs/operate/clouds.md', /./, 'needs a cluster; test/system/helm-values.test.ts renders the values'],
  ['docs/contribute/first-change.md', /./, 'test/system/first-change.test.ts follows the page'],
  ['docs/contribute/release.md', /./, 'needs a published release'],
  ['README.md', /^npm ci/, '.ci/run runs it in a clone'],
  ['', /^npm install /, 'the registry; .ci/run installs the package as npm packs it'],
  ['', /^npx wasm-serve node_modules\//, '.ci/run serves the package as npm packs it'],
  ['README.md', /^curl .*😄 Bob Morane'$/, '.ci/run asks so'],
  ['docs/start/getting-started.md', /^curl /, '.ci/run asks so'],
  ['docs/write/scripts.md', /^curl /, 'test/system/scripts.test.ts asks so'],
  ['docs/write/state.md', /^curl /, 'test/system/state-command.test.ts asks so'],
  ['docs/write/state.md', /^WASM_SERVE_STORE=redis:/, 'test/system/state-redis.test.ts has a server'],
  ['docs/operate/metrics-and-logs.md', /^curl .*\/metrics$/, 'test/unit/deploy-metrics.test.ts asks so'],
  ['docs/operate/metrics-and-logs.md', /^curl .*\/readyz$/, 'test/integration/probes.test.ts asks so'],
  ['docs/serve/reload.md', /^kill -HUP /, 'test/system/reload.test.ts sends it'],
]

interface Line {
  readonly page: string
  readonly line: string
}

/** The lines of the pages that are shown as to be typed. */
const lines: readonly Line[] = documentPages().flatMap((page) =>
  blocksOf(page)
    .filter(({ language }) => language === 'sh')
    .flatMap(({ code }) => code.replaceAll('\\\n', ' ').split('\n'))
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => ({ page, line })),
)

const isOf = ({ page, line }: Line, [start, pattern]: (typeof NOT_HERE)[number]) =>
  page.startsWith(start) && pattern.test(line)

const here = lines.filter((line) => !NOT_HERE.some((known) => isOf(line, known)))

/** A folder that has what a page names, and the command. */
async function folderOf(page: string): Promise<string> {
  const cwd = mkdtempSync(join(tmpdir(), 'wasm-serve-page-'))
  afterAll(() => rmSync(cwd, { recursive: true, force: true }))
  mkdirSync(join(cwd, 'bin'))
  symlinkSync(CLI, join(cwd, 'bin/wasm-serve'))
  const hello = readFileSync(pluginFile('hello', 'hello.wasm'))
  const files: Readonly<Record<string, string | Uint8Array>> = {
    'hello.wasm': hello,
    'count.wasm': readFileSync(pluginFile('count-vowels-rust', 'count-vowels.wasm')),
    'shop.wasm': readFileSync(pluginFile('http-assemblyscript', 'http.wasm')),
    'hello-simplism.wasm': extismGuest('(func (export "handle"))'),
    'main.wasm': guestBytes('(module (import "answers" "f" (func)) (func (export "main") (call 0)))'),
    'answers.wasm': guestBytes('(module (func (export "f")))'),
    'hello.ts': pageScripts('docs/write/scripts.md')[0] ?? '',
    'tools.ts': pageScripts('docs/write/tools-for-agents.md')[0] ?? '',
    'manifest.json': JSON.stringify({ wasm: [{ path: 'hello.wasm' }] }),
    'name.txt': 'Bob',
    'wasm-serve.yaml': markedYaml('docs/start/config-file.md', 'config-file'),
  }
  for (const [name, content] of Object.entries(files)) writeFileSync(join(cwd, name), content)
  for (const name of [
    'hello/hello.wasm',
    'count-vowels-rust/count-vowels.wasm',
    'visits/visits.wasm',
    'socket-rust/socket.wasm',
  ]) {
    cpSync(new URL(`../../plugins/${name}`, import.meta.url), join(cwd, 'plugins', name))
  }
  // A download that is pinned comes from the cache.
  const cache = join(cwd, 'cache/wasm-serve/sha256')
  mkdirSync(cache, { recursive: true })
  writeFileSync(join(cache, createHash('sha256').update(hello).digest('hex')), hello)
  if (page === 'docs/start/commands.md') {
    const store = await openLmdbStore({ folder: join(cwd, 'state') })
    await store.set('visits', 'Bob', Uint8Array.of(1))
    await store.close()
  }
  return cwd
}

const folders = new Map(
  await Promise.all(
    [...new Set(here.map(({ page }) => page)), 'help'].map(async (page) => {
      return [page, await folderOf(page === 'help' ? 'docs/start/commands.md' : page)] as const
    }),
  ),
)

/** What takes seconds there is shown here in parts of one, and a server is checked: it would not end. */
function shortly(line: string): string {
  const command = line.replace(/^npx /, '').replace(/(wasm-serve bench .*)-d \d+/, '$1-d 0.2')
  const [, word = ''] = /^wasm-serve +(\S+)/.exec(command) ?? []
  if (word === 'dev') return command.replace('wasm-serve dev', 'wasm-serve check')
  const serves = word !== '' && !Object.hasOwn(COMMANDS, word) && !command.includes('--print-config')
  return serves ? command.replace('wasm-serve', 'wasm-serve check') : command
}

function shell(line: string, page = 'help') {
  const cwd = folders.get(page) ?? ''
  const env = {
    ...process.env,
    PATH: `${join(cwd, 'bin')}${delimiter}${process.env.PATH}`,
    XDG_CACHE_HOME: join(cwd, 'cache'),
    GREETER_TOKEN: 'sesame',
  }
  const { status, stdout, stderr } = spawnSync('bash', ['-c', shortly(line)], { cwd, env, encoding: 'utf8' })
  return { status, stdout, stderr }
}

test.each(here)('$page says: $line', ({ page, line }) => {
  const { status, stderr } = shell(line, page)
  expect([status, stderr]).toEqual([0, expect.not.stringContaining('wasm-serve: ')])
}, 120_000)

test('there are such lines', () => {
  expect(here.length).toBeGreaterThan(30)
})

test('each reason why a line does not run here is needed', () => {
  const pages = documentPages()
  for (const known of NOT_HERE) {
    const isThere = pages.some((page) => page.startsWith(known[0]))
    expect([known, !isThere || lines.some((line) => isOf(line, known))]).toEqual([known, true])
  }
})

test.each([
  'inspect',
  'call',
  'bench',
  'new',
  'store',
  'cache',
  'completion',
])('the examples of the page of %s work', async (name) => {
  const { stdout } = await run(['help', name])
  const examples = /Examples:\n((?: {2}.*\n)+)/.exec(stdout)?.[1] ?? ''
  // Those for other shells run there, in the system tests.
  const lines = examples.split('\n').map((line) => line.trim())
  const shown = lines.filter((line) => line !== '' && !/zsh|fish/.test(line))
  expect(shown.length).toBeGreaterThan(0)
  const known = here.map(({ line }) => line)
  for (const line of shown.filter((each) => !known.includes(each)))
    expect([line, shell(line).status]).toEqual([line, 0])
})

test('the example of call prints what it should', () => {
  expect(shell("wasm-serve call hello.wasm --input '😄 Bob Morane'").stdout).toBe(
    '{"message":"🦀 Hello 😄 Bob Morane"}',
  )
})
