import { afterAll, beforeAll, expect, test } from 'vitest'
import { CHAOS_FUNCTIONS, SAME_USER } from '../support/chaos.ts'
import { ask, BYSTANDERS, bystanderRoutes, expectWell } from '../support/faults.ts'
import { file, guest } from '../support/guest.ts'
import { startLoad } from '../support/load.ts'
import { listenAll } from '../support/serve.ts'

let server: Awaited<ReturnType<typeof listenAll>>

beforeAll(async () => {
  const functions = file('zoo.mjs', 'export default { env: { relay: (_context, input) => input } }')
  const zoo = { plugin: guest('zoo'), functions, memoryMax: 512 }
  const wasi = { plugin: guest('wasi-zoo'), workers: 1 }
  server = await listenAll(
    [
      { url: '/zoo', ...zoo, timeoutMs: 20_000 },
      { url: '/deadline', ...zoo, timeoutMs: 200 },
      { url: '/ends', ...zoo, functions: CHAOS_FUNCTIONS, workers: 1, timeoutMs: 20_000 },
      { url: '/wasi', ...wasi, timeoutMs: 20_000 },
      { url: '/wasi-deadline', ...wasi, timeoutMs: 200 },
      { url: '/process', ...zoo, engine: 'subprocess', timeoutMs: 20_000 },
      { url: '/process-deadline', ...zoo, engine: 'subprocess', timeoutMs: 200 },
      { url: '/process-wasi', ...wasi, engine: 'subprocess', timeoutMs: 20_000 },
      { url: '/process-wasi-deadline', ...wasi, engine: 'subprocess', timeoutMs: 200 },
      ...bystanderRoutes(),
    ],
    { subprocessUser: SAME_USER },
  )
})

afterAll(() => server.drain())

const TRAP = [500, 'WASM_SERVE_GUEST_TRAP'] as const
const DEADLINE = [504, 'WASM_SERVE_DEADLINE_EXCEEDED'] as const

const FAULTS = [
  ['traps', '/zoo', 'T', ...TRAP],
  ['reads beyond its memory', '/zoo', 'O', ...TRAP],
  ['divides by zero', '/zoo', 'D', ...TRAP],
  ['recurses for ever', '/zoo', 'R', ...TRAP],
  ['fills all the memory there is and traps', '/zoo', 'M', ...TRAP],
  ['takes all the blocks there are and traps', '/zoo', 'A', ...TRAP],
  ['grows its table as far as it goes and traps', '/zoo', 'B', ...TRAP],
  ['reads a block that is none', '/zoo', 'X', ...TRAP],
  ['answers with more than it may', '/zoo', 'P', 502, 'WASM_SERVE_OUTPUT_TOO_LARGE'],
  ['never returns', '/deadline', 'L', ...DEADLINE],
  ['logs for ever', '/deadline', 'V', ...DEADLINE],
  ['waits for half a minute', '/wasi-deadline', 'poll', ...DEADLINE],
] as const

/** The same guest in a process of its own. */
const inProcess = (path: string) => `/process${path.replace('/zoo', '').replace('/', '-')}`

test.each([
  ...FAULTS,
  ...FAULTS.map(([what, path, ...rest]) => [`${what}, in a process,`, inProcess(path), ...rest] as const),
])('a guest that %s costs its own call only', async (_what, path, body, status, code) => {
  for (let i = 0; i < 3; i++) {
    expect(await ask(server.url + path, body)).toMatchObject({ status, code })
    await expectWell(server.url, path)
  }
})

test.each([
  ['sets an error', '/zoo', 'E: no', 409, 'E: no'],
  ['returns 7', '/zoo', 'N', 409, 'The guest function "run" returned 7'],
  ['fills all the memory there is and answers', '/zoo', 'F', 200, 'F'],
  ['takes a million blocks and answers', '/zoo', '1', 200, '1'],
  ['works for some milliseconds', '/zoo', 'W', 200, 'W'],
  ['exits with 3', '/wasi', 'exit', 409, 'The guest function "run" exited with status 3'],
  ['reads its standard input', '/wasi', 'input', 200, 'input'],
  ['counts its environment variables', '/wasi', 'vars', 200, 'vars'],
])('a guest that %s is answered, and the next call is well', async (_what, path, body, status, answer) => {
  for (let i = 0; i < 3; i++) {
    expect(await ask(server.url + path, body)).toEqual({ status, code: undefined, body: answer })
    await expectWell(server.url, path)
  }
})

test.each([
  ['never return', '/deadline', 'L', ...DEADLINE],
  ['fill all memory and trap', '/zoo', 'M', ...TRAP],
  ['end their thread', '/ends', 'H die', 500, 'WASM_SERVE_WORKER_LOST'],
])('while guests %s, the other routes answer every request', async (_what, path, body, status, code) => {
  let isOver = false
  const failures = Array.from({ length: 2 }, async () => {
    do expect(await ask(server.url + path, body)).toMatchObject({ status, code })
    while (!isOver)
  })
  const others = BYSTANDERS.map(async (other) => {
    const load = startLoad({ url: server.url + other, connections: 4, body: (id) => `${other} ${id}` })
    await load.answered(200)
    expect(await load.stop()).toMatchObject({ wrong: 0, non2xx: 0, resets: 0, refused: 0 })
  })
  const answered = Promise.all(others).finally(() => {
    isOver = true
  })
  await Promise.all([answered, ...failures])
})

test('100 faults of all kinds at a time cost their own calls only', async () => {
  const faults = { T: 500, M: 500, R: 500, E: 409, P: 502, B: 500 }
  const bodies = Array.from({ length: 100 }, (_, i) => {
    const mood = i % 4 === 0 ? Object.keys(faults)[(i / 4) % 6] : 'x'
    return `${mood}${i}`
  })
  const outcomes = await Promise.all(bodies.map((body) => ask(`${server.url}/zoo`, body)))
  for (const [i, { status, body }] of outcomes.entries()) {
    const sent = bodies[i] ?? ''
    const expected = faults[sent.charAt(0) as keyof typeof faults]
    expect([sent, status]).toEqual([sent, expected ?? 200])
    if (!expected) expect(body).toBe(sent)
  }
  await expectWell(server.url, '/zoo')
})
