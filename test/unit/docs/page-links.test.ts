import { existsSync, readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { anchorsOf, documentPages, linksOf, readPage } from '../../support/pages.ts'

const exists = (path: string) => existsSync(fileURLToPath(new URL(`../../../${path}`, import.meta.url)))

const OTHERS = [
  'CONTRIBUTING.md',
  'CHANGELOG.md',
  'SECURITY.md',
  'CODE_OF_CONDUCT.md',
  'bench/README.md',
  ...readdirSync(new URL('../../../bench/results', import.meta.url))
    .filter((name) => name.endsWith('.md'))
    .map((name) => `bench/results/${name}`),
  'examples/README.md',
  'plugins/README.md',
].filter(exists)

test.each([
  ...documentPages(),
  ...OTHERS,
])('each link of %s leads to a file, and to a heading in it', (page) => {
  const dead = linksOf(page).filter(
    ({ path, anchor }) =>
      !exists(path) || (anchor !== '' && !(path.endsWith('.md') && anchorsOf(path).has(anchor))),
  )
  expect(dead.map(({ href }) => href)).toEqual([])
})

test('the README links to each page for users, and CONTRIBUTING to each for contributors', () => {
  const linked = [...linksOf('README.md'), ...linksOf('CONTRIBUTING.md')].map(({ path }) => path)
  const pages = documentPages().filter((page) => page.startsWith('docs/'))
  expect(pages.filter((page) => !linked.includes(page))).toEqual([])
})

test('what users read has at most 45,000 words', () => {
  const pages = documentPages().filter((page) => !page.startsWith('docs/contribute/'))
  const words = pages
    .flatMap((page) => readPage(page).split(/\s+/))
    .filter((word) => /[\p{L}\p{N}]/u.test(word))
  expect(words.length).toBeLessThanOrEqual(45_000)
})

test('the README has at most 200 lines', () => {
  expect(readPage('README.md').trimEnd().split('\n').length).toBeLessThanOrEqual(200)
})

test('the first screen of the README shows both kinds of plug-ins, and the deadline', () => {
  const screen = readPage('README.md').split('\n').slice(0, 35).join('\n')
  for (const text of ['hello.wasm', 'hello.ts', '`--timeout`, by default 1 second'])
    expect(screen).toContain(text)
})

test('the common questions name each optional package', () => {
  const manifest: { peerDependencies: Readonly<Record<string, string>> } = JSON.parse(
    readPage('package.json'),
  )
  const named = readPage('docs/start/questions.md').split(/[`\s]/)
  expect(named).toEqual(expect.arrayContaining(Object.keys(manifest.peerDependencies)))
})

test('CONTRIBUTING has at most 120 lines, and its ten tasks name three files each that are there', () => {
  const page = readPage('CONTRIBUTING.md')
  expect(page.trimEnd().split('\n').length).toBeLessThanOrEqual(120)
  const [, tasks = ''] = page.split('## Ten tasks')
  const rows = [...tasks.matchAll(/^\| (.*) \| (.*) \|$/gm)].slice(2, 12)
  for (const [, task = '', cell = ''] of rows) {
    const named = [...cell.matchAll(/`([\w/.-]+\/[\w.-]*)`/g)].map(([, path = '']) => path)
    expect(cell.split(/[,;]/).length, task).toBeLessThanOrEqual(3)
    expect(
      named.filter((path) => !exists(`src/${path}`)),
      task,
    ).toEqual([])
  }
  expect(rows).toHaveLength(10)
})

/** Questions that readers have, and what the first screen of the page must say. */
test.each([
  ['How do I limit memory?', 'docs/serve/limits.md', '--memory-max'],
  ['Which status does a timeout have?', 'docs/serve/isolation-and-deadlines.md', '504'],
  ['What does `fresh` cost?', 'docs/serve/isolation-and-deadlines.md', 'What does `fresh` cost?'],
  ['How do I keep state in Redis?', 'docs/write/state.md', 'redis://'],
  ['How do I mount it in my app?', 'docs/serve/embedding.md', 'app.register(wasmServe'],
  ['How do I roll back?', 'docs/operate/admin-api.md', '/rollback'],
  ['How do I write a host function?', 'docs/write/host-functions.md', 'HostFunctions'],
  ['What happens on SIGTERM?', 'docs/operate/shutdown.md', '--drain-ms'],
  ['How do I see metrics?', 'docs/operate/metrics-and-logs.md', '/metrics'],
  ["Is it safe to run strangers' plug-ins?", 'docs/protect/security.md', '--engine subprocess'],
])('the README leads from "%s" to a page that answers it in its first screen', (question, page, answer) => {
  const row = readPage('README.md')
    .split('\n')
    .find((line) => line.startsWith('|') && line.includes(question))
  expect(row).toContain(`(${page})`)
  expect(readPage(page).split('\n').slice(0, 25).join('\n')).toContain(answer)
})
