import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test, vi } from 'vitest'
import { documentPages, pageSnippets } from '../support/pages.ts'
import { userPackage } from '../support/user-package.ts'

vi.setConfig({ testTimeout: 120_000 }) // each test starts Node.js anew, one of them vitest

const folder = userPackage()

/** Pages whose snippets a test of their own runs. */
const ELSEWHERE = [
  'docs/contribute/first-change.md',
  'docs/serve/extism.md',
  'docs/start/migrate.md',
  'docs/write/scripts.md',
  'docs/start/tutorial.md',
]

const snippets = documentPages()
  .filter((page) => !ELSEWHERE.includes(page))
  .flatMap((page) => pageSnippets(page).map((code) => ({ page, code })))

/** Asks the app of a snippet, and prints the answers. */
const ask = (...requests: string[]) => `
const answers = []
for (const request of [${requests.join(', ')}]) {
  const { statusCode, body } = await app.inject({ method: 'POST', payload: '', ...request })
  answers.push([statusCode, body])
}
await app.close()
console.log('ANSWERS' + JSON.stringify(answers))`

/** What each snippet is asked, and what it has to answer: those of a page in its order. */
const apps: Readonly<Record<string, readonly (readonly [what: string, code: string, answers: unknown])[]>> = {
  'README.md': [
    [
      'mounts a plug-in beside a route',
      ask(`{ url: '/plugins/hello', payload: 'Bob' }`, `{ method: 'GET', url: '/health' }`),
      [
        [200, '{"message":"🦀 Hello Bob"}'],
        [200, 'ok'],
      ],
    ],
  ],
  'docs/serve/embedding.md': [
    [
      'mounts plug-ins into an app',
      ask(
        `{ url: '/plugins/hello', payload: 'Bob' }`,
        `{ url: '/plugins/count', payload: 'hello' }`,
        `{ method: 'GET', url: '/plugins/shop/hello/Bob', headers: { host: 'shop.example.com' } }`,
      ),
      [
        [200, '{"message":"🦀 Hello Bob"}'],
        [200, '{"count":2,"total":2,"vowels":"aeiou"}'],
        [404, '{"error":"not found"}'], // the guest sees the whole path,
      ],
    ],
    [
      'makes a server',
      `console.log('ANSWERS' + JSON.stringify([[reply.statusCode, reply.body]]))`,
      [[200, '{"message":"🦀 Hello 😄 Bob Morane"}']],
    ],
    [
      'has hooks',
      ask(`{ url: '/', payload: 'Bob' }`, `{ url: '/', payload: 'Bob', headers: { title: 'Sir' } }`),
      [
        [403, expect.stringContaining('the header \\"title\\" is missing')],
        [200, '{"message":"🦀 Hello Sir Bob"}'],
      ],
    ],
  ],
  'docs/write/contracts.md': [
    [
      'has a contract of its own',
      ask(`{ method: 'GET', url: '/?text=hello' }`, `{ method: 'GET', url: '/' }`),
      [
        [200, '{"vowels":2}'],
        [200, '{"vowels":0}'],
      ],
    ],
  ],
  'docs/write/host-functions.md': [
    [
      'has host functions',
      ask(`{ url: '/', payload: 'pear' }`, `{ url: '/', payload: 'yacht' }`),
      [
        [200, '1.50'],
        [200, 'unknown'],
      ],
    ],
  ],
  'docs/write/tools-for-agents.md': [
    [
      'serves tools',
      ask(
        `{ url: '/mcp', payload: { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'hello', arguments: { input: 'Bob' } } } }`,
        `{ url: '/hello', payload: 'Bob' }`,
      ),
      [
        [200, expect.stringContaining('Hello Bob')],
        [404, expect.anything()],
      ],
    ],
  ],
}

const isTest = ({ code }: { code: string }) => code.includes(`from 'vitest'`)
/** Others are plug-ins: `scripts.test.ts` runs them. */
const isProgram = ({ code }: { code: string }) => code.includes(`from 'wasm-serve'`)
const programs = snippets.filter((snippet) => !isTest(snippet) && isProgram(snippet))

test('a test runs each snippet of the pages', () => {
  const known = Object.entries(apps).flatMap(([page, asked]) => asked.map(() => page))
  expect(programs.map(({ page }) => page)).toEqual(known)
  expect(snippets.filter(isTest).length).toBe(1)
})

test.each(
  Object.values(apps)
    .flat()
    .map((app, i) => [programs[i]?.page, ...app, i] as const),
)('the snippet of %s that %s works', async (_page, _what, code, answers, i) => {
  const file = join(folder, `snippet-${i}.ts`)
  writeFileSync(file, programs[i]?.code.replace('port: 8080', 'port: 0') + code)
  const { stdout } = await promisify(execFile)(process.execPath, ['--import', 'tsx', file], { cwd: folder })
  expect(JSON.parse(/ANSWERS(.*)/.exec(stdout)?.[1] ?? 'null')).toEqual(answers)
})

test('the snippet that is a test passes in vitest, and fails if the guest answers something else', async () => {
  const snippet = snippets.find(isTest)?.code ?? ''
  writeFileSync(join(folder, 'right.test.ts'), snippet)
  writeFileSync(join(folder, 'wrong.test.ts'), snippet.replace('count: 2', 'count: 3'))
  const vitest = join(folder, 'node_modules/vitest/vitest.mjs')
  const run = (file: string) =>
    promisify(execFile)(process.execPath, [vitest, 'run', '--root', folder, file], { cwd: folder })
  expect((await run('right.test.ts')).stdout).toMatch(/1 passed/)
  await expect(run('wrong.test.ts')).rejects.toMatchObject({ code: 1 })
})
