import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test, vi } from 'vitest'
import { readmeSnippets } from '../support/readme-snippets.ts'
import { userPackage } from '../support/user-package.ts'

vi.setConfig({ testTimeout: 120_000 }) // each test starts Node.js anew, one of them vitest

const folder = userPackage()
const snippets = readmeSnippets('In your own app')

/** Asks the app of a snippet, and prints the answers. */
const ask = (...requests: string[]) => `
const answers = []
for (const request of [${requests.join(', ')}]) {
  const { statusCode, body } = await app.inject({ method: 'POST', payload: '', ...request })
  answers.push([statusCode, body])
}
await app.close()
console.log('ANSWERS' + JSON.stringify(answers))`

/** What each snippet is asked, and what it has to answer, in the README's order. */
const apps: readonly [what: string, code: string, answers: unknown][] = [
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
      [403, expect.stringContaining('say how you are to be called')],
      [200, '{"message":"🦀 Hello Sir Bob"}'],
    ],
  ],
  [
    'has host functions',
    ask(`{ url: '/', payload: 'pear' }`, `{ url: '/', payload: 'yacht' }`),
    [
      [200, '1.50'],
      [200, 'unknown'],
    ],
  ],
]

const isTest = (snippet: string) => snippet.includes(`from 'vitest'`)

test('each snippet of the section is run by a test', () => {
  expect(snippets.filter((snippet) => !isTest(snippet)).length).toBe(apps.length)
  expect(snippets.filter(isTest).length).toBe(1)
})

test.each(
  apps.map((app, i) => [i, ...app] as const),
)('snippet %i, which %s, works', async (i, _, code, answers) => {
  const snippet = snippets.filter((snippet) => !isTest(snippet))[i] ?? ''
  const file = join(folder, `snippet-${i}.ts`)
  writeFileSync(file, snippet.replace('port: 8080', 'port: 0') + code)
  const { stdout } = await promisify(execFile)(process.execPath, ['--import', 'tsx', file], { cwd: folder })
  expect(JSON.parse(/ANSWERS(.*)/.exec(stdout)?.[1] ?? 'null')).toEqual(answers)
})

test('the snippet that is a test passes in vitest, and fails if the guest answers something else', async () => {
  const snippet = snippets.find(isTest) ?? ''
  writeFileSync(join(folder, 'right.test.ts'), snippet)
  writeFileSync(join(folder, 'wrong.test.ts'), snippet.replace('count: 2', 'count: 3'))
  const vitest = join(folder, 'node_modules/vitest/vitest.mjs')
  const run = (file: string) =>
    promisify(execFile)(process.execPath, [vitest, 'run', '--root', folder, file], { cwd: folder })
  expect((await run('right.test.ts')).stdout).toMatch(/1 passed/)
  await expect(run('wrong.test.ts')).rejects.toMatchObject({ code: 1 })
})
