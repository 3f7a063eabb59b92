import { once } from 'node:events'
import fs from 'node:fs'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { expect, onTestFinished, test } from 'vitest'
import { guest } from '../support/guest.ts'
import { listen } from '../support/serve.ts'

/*
 * Guests in several threads make and move links in a folder, while a server serves a part of it, and while somebody else
 * swaps folders for links that lead out. Longer:
 *
 *   npm run build && LINK_ROUNDS=100000 npx vitest run test/system/links.test.ts
 */

/** Requests. */
const ROUNDS = Number(process.env.LINK_ROUNDS ?? 3_000)

/** No other file has this length: a HEAD would show it. */
const SECRET = 'SECRET '.repeat(1_001)

const NAMES = ['a', 'b', 'c', 'site', 'x']

interface Report {
  readonly done: number
  readonly leaks: readonly string[]
}

/** `box` is the guests' folder, and `box/site` is served. What `x` beside and above it says, nobody may learn. */
function makeBox() {
  const root = fs.mkdtempSync(join(fs.realpathSync(tmpdir()), 'links-'))
  onTestFinished(() => fs.rmSync(root, { recursive: true, force: true }))
  const box = join(root, 'home/box')
  fs.mkdirSync(join(box, 'site/a/b/c'), { recursive: true })
  for (const name of ['x', 'home/x']) fs.writeFileSync(join(root, name), SECRET)
  fs.writeFileSync(join(box, 'site/file.txt'), 'inside')
  const links = { 'site/a/b/c/up': '../../x', 'site/a/b/around': 'c/../x', 'site/down': 'a/b' }
  for (const [name, target] of Object.entries(links)) fs.symlinkSync(target, join(box, name))
  return { root, box }
}

/** Runs threads of `link-storm.mjs` while `use` does. */
async function during(
  box: string,
  tasks: readonly string[],
  use: () => Promise<unknown>,
): Promise<readonly Report[]> {
  const state = new SharedArrayBuffer(4) // 0: all prepare, 1: all run, 2: all stop
  const names = [...NAMES, 'up', 'around', 'down']
  const script = new URL('../support/link-storm.mjs', import.meta.url)
  const threads = tasks.map(
    (task) => new Worker(script, { workerData: { task, box, names, secret: SECRET, state } }),
  )
  for (const thread of threads) onTestFinished(async () => void (await thread.terminate()))
  await Promise.all(threads.map((thread) => once(thread, 'message')))
  Atomics.store(new Int32Array(state), 0, 1)
  Atomics.notify(new Int32Array(state), 0)
  const reports = threads.map(async (thread): Promise<Report> => (await once(thread, 'message'))[0])
  await use()
  Atomics.store(new Int32Array(state), 0, 2)
  return await Promise.all(reports)
}

/** Asks for files that come and go. @returns How often each status came. */
async function ask(port: number, paths: readonly string[]): Promise<Map<number, number>> {
  const statuses = new Map<number, number>()
  let left = ROUNDS
  async function client(): Promise<void> {
    while (left-- > 0) {
      const path = paths[left % paths.length] ?? ''
      const method = left % 3 === 0 ? 'HEAD' : 'GET'
      const headers = left % 5 === 0 ? { range: 'bytes=0-99999' } : {}
      const [answer] = await once(request({ port, path, method, headers }).end(), 'response')
      let body = ''
      for await (const chunk of answer.setEncoding('utf8')) body += chunk
      expect(body).not.toContain('SECRET')
      expect(answer.headers['content-length']).not.toBe(`${SECRET.length}`)
      expect(answer.headers['content-range'] ?? '').not.toContain(`/${SECRET.length}`)
      statuses.set(answer.statusCode, (statuses.get(answer.statusCode) ?? 0) + 1)
    }
  }
  await Promise.all(Array.from({ length: 8 }, client))
  return statuses
}

function linksIn(folder: string): string[] {
  return fs
    .readdirSync(folder, { withFileTypes: true })
    .flatMap((entry) =>
      entry.isSymbolicLink()
        ? [join(folder, entry.name)]
        : entry.isDirectory()
          ? linksIn(join(folder, entry.name))
          : [],
    )
}

test('while guests make and move links at the same time, none leads out, and nothing outside is served', async () => {
  const { root, box } = makeBox()
  const { port } = await listen(
    { url: '/echo', plugin: guest('echo') },
    { static: { '/': join(box, 'site') } },
  )
  const paths = [
    '/file.txt',
    '/a/x',
    '/b/x',
    '/x',
    '/a/b/x',
    '/a/b/c/up',
    '/up',
    '/c/x',
    '/a/a/x',
    '/down/around',
  ]
  const [observed, ...guests] = await during(box, ['observer', 'guest', 'guest', 'guest'], () =>
    ask(port, paths),
  )
  for (const { done, leaks } of [observed, ...guests].filter((report) => report !== undefined)) {
    expect(done).toBeGreaterThan(10)
    expect(leaks).toEqual([])
  }
  for (const link of linksIn(box))
    expect([link, join(link, '..', fs.readlinkSync(link))]).toEqual([
      link,
      expect.stringContaining(`${box}/`),
    ])
  for (const name of ['x', 'home/x']) expect(fs.readFileSync(join(root, name), 'utf8')).toBe(SECRET)
  expect([fs.readdirSync(root), fs.readdirSync(join(root, 'home'))].flat().sort()).toEqual([
    'box',
    'home',
    'x',
    'x',
  ])
})

test('while somebody swaps folders and files for links that lead out, nothing outside is served', async () => {
  const { box } = makeBox()
  const { port } = await listen(
    { url: '/echo', plugin: guest('echo') },
    { static: { '/': join(box, 'site') } },
  )
  let statuses = new Map<number, number>()
  const reports = await during(box, ['swapper'], async () => {
    statuses = await ask(port, ['/swap/x', '/swap.txt', '/swap/x', '/swap/home/x'])
  })
  expect(reports[0]?.done).toBeGreaterThan(10)
  expect(statuses.get(200)).toBeGreaterThan(0)
  expect(statuses.get(404)).toBeGreaterThan(0)
  expect([...statuses.keys()].filter((status) => status >= 500)).toEqual([])
})
