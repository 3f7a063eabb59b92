import { readFileSync } from 'node:fs'
import { Session } from 'node:inspector/promises'
import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'

/*
 * npm run journeys: what a request, and a change by the admin API, run through: our functions and their files, as V8
 * counts them. Those in brackets call none of the others. After `npm run build`: it looks at `lib/`, which has a module
 * for each source.
 */

const LIB = new URL('../lib/', import.meta.url)
const { createServer } = (await import(new URL('index.js', LIB).href)) as typeof import('../src/index.ts')

const hello = fileURLToPath(new URL('../plugins/hello/hello.wasm', import.meta.url))
const token = 'only-this-script-knows-it'
const app = await createServer({ routes: [{ plugin: hello }], port: 0, logLevel: 'silent' })
const url = await app.listen()
const managed = await createServer({
  routes: [{ plugin: hello }],
  ...{ logLevel: 'silent', admin: '127.0.0.1:0', adminToken: token, uploadLimit: 67_108_864 },
})
await managed.ready()
const session = new Session()
session.connect()
await session.post('Profiler.enable')
await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })

const module = await import('node:fs/promises').then(({ readFile }) => readFile(hello))
const ask = async () => (await fetch(url, { method: 'POST', body: 'Bob' })).text()
const put = async () => {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/wasm' }
  const answer = await fetch(`${managed.adminUrl}/api/plugins/hello`, {
    method: 'PUT',
    headers,
    body: module,
  })
  if (!answer.ok) throw new Error(await answer.text())
}
for (let i = 0; i < 3; i++) await ask()
render('An inline request', await journey(ask))
render('An admin PUT of a plug-in', await journey(put))
session.disconnect()
await Promise.all([app.close(), managed.close()])

/** A function that ran. */
interface Step {
  readonly file: string
  readonly name: string
  /** Whether it names another one that ran: else it is the end of the way, such as the getter of a size. */
  readonly callsOn: boolean
}

async function journey(run: () => Promise<unknown>): Promise<Step[]> {
  await session.post('Profiler.takePreciseCoverage') // discards the coverage of earlier code
  await run()
  const { result } = await session.post('Profiler.takePreciseCoverage')
  const ran = result
    .filter(({ url }) => url.startsWith(LIB.href))
    .flatMap(({ url, functions }) => {
      const text = readFileSync(new URL(url), 'utf8')
      return functions.flatMap(({ functionName: name, ranges: [range] }) => {
        const isWritten = name !== '' && name !== '<instance_members_initializer>'
        if (!isWritten || !range?.count) return []
        const file = relative(fileURLToPath(LIB), fileURLToPath(url))
        return [{ file, name, body: text.slice(range.startOffset, range.endOffset) }]
      })
    })
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

function render(title: string, steps: readonly Step[]): void {
  const hops = steps.filter(({ callsOn }) => callsOn)
  const count = `${hops.length} functions in ${new Set(hops.map(({ file }) => file)).size} files call another one`
  const files = new Map<string, Step[]>()
  for (const step of steps) files.set(step.file, [...(files.get(step.file) ?? []), step])
  console.log(`\n${title}: ${steps.length} functions in ${files.size} files; ${count}`)
  for (const [file, found] of files) {
    console.log(`  ${file}: ${found.map(({ name, callsOn }) => (callsOn ? name : `(${name})`)).join(', ')}`)
  }
}
