import { readFileSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { Session } from 'node:inspector/promises'
import { relative } from 'node:path'
import { argv, env, execPath, exit } from 'node:process'
import { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import type { Host } from '../src/cli/command.ts'
import type { RouteOptions } from '../src/index.ts'
import type { RunningServer } from '../src/server/server.ts'
import {
  growth,
  type Row,
  readGrowth,
  renderGrowth,
  rowsOf,
  staticFigures,
  type TableRows,
  writeGrowth,
} from './growth.ts'
import { sources } from './rooms.ts'
import { withTables } from './tables.ts'

/*
 * npm run journeys: what requests, and changes by the admin API, run through: our functions and their files, as V8 counts
 * them. Those in brackets call none of the others. It writes the counts to growth.md and to the page about the source;
 * with --check it compares them. It looks at `lib/`, which has a module for each source.
 */

const LIB = new URL('../lib/', import.meta.url)
const SOURCE_PAGE = new URL('../docs/contribute/source.md', import.meta.url)

/** How often each journey is made. */
const RUNS = 5

/** A function that only some of the runs need, such as one of a timer, counts when the page is written, not when it is compared. */
const isChecked = argv[2] === '--check'

/** A function that ran. */
interface Step {
  readonly file: string
  readonly name: string
  /** Whether it names another one that ran. If not it is the end of the way, such as the getter of a size. */
  readonly callsOn: boolean
}

/** A server and what is asked of it. */
interface Journey {
  run(): Promise<unknown>
  close(): Promise<unknown>
}

const hello = fileURLToPath(new URL('../plugins/hello/hello.wasm', import.meta.url))
const token = 'only-this-script-knows-it'
const quiet = { logLevel: 'silent', port: 0 } as const

/** Each journey has servers of its own, because one server of a process does work for all of them. */
const JOURNEYS: Readonly<Record<string, () => Promise<Journey>>> = {
  'inline request': () => openRequest({ plugin: hello }),
  'request of a thread': () => openRequest({ plugin: hello, engine: 'workers' }),
  'call of an MCP tool': openTool,
  'admin PUT': openPut,
  'admin PUT with processes': openPutWithProcesses,
}

async function openRequest(route: RouteOptions): Promise<Journey> {
  const { createServer } = await library()
  const app = await createServer({ ...quiet, routes: [route] })
  const url = await app.listen()
  return { run: () => ask(url, { method: 'POST', body: 'Bob' }), close: () => app.close() }
}

async function openTool(): Promise<Journey> {
  const { createServer } = await library()
  const app = await createServer({ ...quiet, routes: [{ plugin: hello }], mcp: {} })
  const url = await app.listen()
  const message = {
    ...{ jsonrpc: '2.0', id: 1, method: 'tools/call' },
    params: { name: 'hello', arguments: { input: 'Bob' } },
  }
  const headers = {
    accept: 'application/json, text/event-stream',
    'content-type': 'application/json',
    'mcp-protocol-version': '2025-06-18',
  }
  const init = { method: 'POST', headers, body: JSON.stringify(message) }
  return { run: () => ask(`${url}/mcp`, init), close: () => app.close() }
}

async function openPut(): Promise<Journey> {
  const { createServer } = await library()
  const app = await createServer({
    ...{ ...quiet, admin: '127.0.0.1:0', adminToken: token, uploadLimit: 67_108_864 },
    routes: [{ plugin: hello }],
  })
  await app.ready()
  return { run: await putTo(app.adminUrl), close: () => app.close() }
}

/** The command, of which this process is the primary. */
async function openPutWithProcesses(): Promise<Journey> {
  const { main, COMMANDS } = (await lib('cli/cli.js')) as typeof import('../src/cli/cli.ts')
  const { Secrets } = (await lib('observe/log/secrets.js')) as typeof import('../src/observe/log/secrets.ts')
  const nothing = { write: () => true, colours: false }
  let messages = ''
  const server = await new Promise<RunningServer>((resolve, reject) => {
    const host: Host = {
      environment: { ...env, WASM_SERVE_ADMIN_TOKEN: token, WASM_SERVE_LOG_LEVEL: 'silent' },
      ...{ out: nothing, isOutTerminal: false, logTerminal: undefined, logLines: nothing },
      ...{ secrets: new Secrets(), commands: COMMANDS },
      program: [execPath, fileURLToPath(new URL('cli.js', LIB))],
      writeBytes: () => undefined,
      sendBytes: async () => true,
      writeError(text) {
        messages += text
      },
      readInput: async () => new Uint8Array(),
      readChunks: () => Readable.from([]),
      readLines: () => Readable.from([]),
      keyboard: undefined,
      signals: { holdReload: () => () => false, atExit: () => undefined, endWith: resolve },
    }
    const words = `${hello} 0 --processes 2 --admin 127.0.0.1:0 --upload-limit 67108864 --drain-ms 0`
    void main(words.split(' '), host).then((code) => code === 0 || reject(new Error(messages)))
  })
  const [, url] = /admin listener is on (\S+)/.exec(messages) ?? []
  return { run: await putTo(url), close: () => server.drain() }
}

async function putTo(admin: string | undefined): Promise<() => Promise<unknown>> {
  const body = await readFile(hello)
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/wasm' }
  return () => ask(`${admin}/api/plugins/hello`, { method: 'PUT', headers, body })
}

function library(): Promise<typeof import('../src/index.ts')> {
  return lib('index.js') as Promise<typeof import('../src/index.ts')>
}

function lib(path: string): Promise<unknown> {
  return import(new URL(path, LIB).href)
}

async function ask(url: string, init: RequestInit): Promise<string> {
  const answer = await fetch(url, init)
  const text = await answer.text()
  if (!answer.ok) throw new Error(text)
  return text
}

/** The functions that a journey needs. */
async function stepsOf({ run }: Journey, session: Session): Promise<Step[]> {
  for (let i = 0; i < 3; i++) await run()
  const seen = new Map<string, { times: number; step: Omit<Step, 'callsOn'> & { body: string } }>()
  for (let i = 0; i < RUNS; i++) {
    await session.post('Profiler.takePreciseCoverage') // discards the coverage of earlier code
    await run()
    const { result } = await session.post('Profiler.takePreciseCoverage')
    for (const { url, functions } of result.filter(({ url }) => url.startsWith(LIB.href))) {
      const text = readFileSync(new URL(url), 'utf8')
      const file = relative(fileURLToPath(LIB), fileURLToPath(url))
      for (const { functionName: name, ranges } of functions) {
        const [range] = ranges
        if (name === '' || name === '<instance_members_initializer>' || !range?.count) continue
        const key = `${file} ${range.startOffset}`
        const step = { file, name, body: text.slice(range.startOffset, range.endOffset) }
        seen.set(key, { step, times: (seen.get(key)?.times ?? 0) + 1 })
      }
    }
  }
  const ran = [...seen.values()].filter(({ times }) => !isChecked || times === RUNS).map(({ step }) => step)
  return ran.map(({ file, name, body }) => {
    const callsOn = ran.some((other) => other.name !== name && mentions(body, other.name))
    return { file, name, callsOn }
  })
}

/** Whether a function calls another one, passes it on, or uses it as a getter. */
function mentions(text: string, name: string): boolean {
  const word = name.slice(name.lastIndexOf(' ') + 1)
  const start = text.indexOf(')') + 1
  const [parameters, body] = [text.slice(0, start), text.slice(start)]
  if (name.startsWith('get '))
    return new RegExp(`\\.${word}\\b(?!\\()|{[^{}]*\\b${word}\\b[^{}]*} = `).test(body)
  if (new RegExp(`(?<!Atomics\\.|[\\w#])${word}\\(`).test(body)) return true
  const isOwn = new RegExp(`\\b${word}\\b`).test(parameters) || body.includes(`const ${word} =`)
  return !isOwn && new RegExp(`[(,] ?(this\\.)?${word}[,)]`).test(body)
}

/** The counts of a journey, as growth.md has them. */
function rowOf(name: string, steps: readonly Step[]): Row {
  const filesOf = (some: readonly Step[]) => new Set(some.map(({ file }) => file)).size
  const calling = steps.filter(({ callsOn }) => callsOn)
  return { name, figures: [steps.length, filesOf(steps), calling.length, filesOf(calling)] }
}

function print(name: string, steps: readonly Step[]): void {
  console.log(`\n${name}: ${sentence(rowOf(name, steps).figures)}`)
  const files = new Map<string, Step[]>()
  for (const step of steps) files.set(step.file, [...(files.get(step.file) ?? []), step])
  for (const [file, found] of files) {
    console.log(`  ${file}: ${found.map(({ name, callsOn }) => (callsOn ? name : `(${name})`)).join(', ')}`)
  }
}

function sentence([functions, files, calling, theirFiles]: readonly number[]): string {
  return `${functions} functions in ${files} files; ${calling} functions in ${theirFiles} files call another one`
}

/** The page about the source, with the figures of growth.md. */
export function renderJourneys(page: string, grown: string): string {
  const rows = rowsOf(grown, 'journeys')
  const figures = (name: string) => sentence(rows.get(name)?.figures ?? [])
  return withTables(page, {
    'journey-request': `An inline request of \`hello.wasm\` runs at most ${figures('inline request')}.\n`,
    'journey-change': `An admin PUT of a plug-in that is served already runs at most ${figures('admin PUT')}. With \`--processes\`, the primary runs at most ${figures('admin PUT with processes')}.\n`,
  })
}

async function measure(): Promise<TableRows> {
  const session = new Session()
  session.connect()
  await session.post('Profiler.enable')
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
  const rows: Row[] = []
  for (const [name, open] of Object.entries(JOURNEYS)) {
    const journey = await open()
    const steps = await stepsOf(journey, session)
    await journey.close()
    print(name, steps)
    rows.push(rowOf(name, steps))
  }
  session.disconnect()
  return { journeys: rows }
}

if (argv[1] === fileURLToPath(import.meta.url)) {
  const measured = await measure()
  if (isChecked) {
    const wrong = growth(readGrowth(), measured)
    for (const line of wrong) console.error(line)
    exit(wrong.length === 0 ? 0 : 1)
  }
  writeGrowth(renderGrowth(readGrowth(), { ...staticFigures(sources()), ...measured }, argv[2] ?? ''))
  writeFileSync(SOURCE_PAGE, renderJourneys(readFileSync(SOURCE_PAGE, 'utf8'), readGrowth()))
}
