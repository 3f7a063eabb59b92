import { Session } from 'node:inspector/promises'
import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'

/*
 * npm run journeys: what a request, and a change by the admin API, run through: our functions and their files, as V8
 * counts them. After `npm run build`: it looks at `lib/`, which has a module for each source.
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

/** The functions that ran, by file. */
async function journey(run: () => Promise<unknown>): Promise<ReadonlyMap<string, readonly string[]>> {
  await session.post('Profiler.takePreciseCoverage') // what ran before
  await run()
  const { result } = await session.post('Profiler.takePreciseCoverage')
  const found = result
    .filter((script) => script.url.startsWith(LIB.href))
    .map(({ url, functions }) => {
      const ran = functions.filter(({ functionName, ranges }) => functionName !== '' && ranges[0]?.count)
      return [
        relative(fileURLToPath(LIB), fileURLToPath(url)),
        ran.map(({ functionName }) => functionName),
      ] as const
    })
  return new Map(found.filter(([, names]) => names.length > 0))
}

function render(title: string, files: ReadonlyMap<string, readonly string[]>): void {
  const count = [...files.values()].reduce((sum, { length }) => sum + length, 0)
  console.log(`\n${title}: ${count} functions in ${files.size} files`)
  for (const [file, names] of files) console.log(`  ${file}: ${names.join(', ')}`)
}
