import { execFile } from 'node:child_process'
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import fastifyStatic from '@fastify/static'
import Fastify from 'fastify'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openPage } from '../support/browser.ts'
import { describeWith } from '../support/tools.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const VITEPRESS = join(ROOT, 'node_modules/vitepress/bin/vitepress.js')

const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-docs-'))
const site = join(folder, 'site')
const app = Fastify()
let origin = ''

beforeAll(async () => {
  await promisify(execFile)(process.execPath, [VITEPRESS, 'build', 'docs', '--outDir', site], { cwd: ROOT })
  app.register(fastifyStatic, { root: site })
  origin = await app.listen({ host: '127.0.0.1', port: 0 })
}, 300_000)
afterAll(async () => {
  await app.close()
  rmSync(folder, { recursive: true, force: true })
})

/** Paths of the pages that were built. */
function builtPages(): string[] {
  return readdirSync(site, { recursive: true, encoding: 'utf8' }).filter(
    (file) => file.endsWith('.html') && file !== '404.html',
  )
}

/** Paths of pages, as the sidebar of the home page lists them. */
function listedPages(): string[] {
  const [sidebar = ''] =
    /<nav[^>]* id="VPSidebarNav".*?<\/nav>/s.exec(readFileSync(join(site, 'index.html'), 'utf8')) ?? []
  return [...sidebar.matchAll(/href="\/([^"]*)"/g)].map(([, path = '']) =>
    path.replace(/(^|\/)$/, '$1index.html'),
  )
}

test('the README and each Markdown file of docs for users is a page, and the sidebar lists all pages', () => {
  const documents = readdirSync(join(ROOT, 'docs'), { recursive: true, encoding: 'utf8' }).filter(
    (file) => file.endsWith('.md') && !/^(\.|contribute\/)/.test(file),
  )
  const pages = builtPages()
  expect(documents.length).toBeGreaterThan(5)
  expect(pages.sort()).toEqual(
    ['index.html', ...documents.map((file) => file.replace(/\.md$/, '.html'))].sort(),
  )
  expect(listedPages().sort()).toEqual(pages.sort())
})

/** A repository of two pages that has the site's configuration: builds it, and returns the page with this text. */
async function buildPage(text: string, description: object = {}): Promise<string> {
  const root = mkdtempSync(join(folder, 'repository-'))
  mkdirSync(join(root, 'src'))
  cpSync(join(ROOT, 'docs/.vitepress'), join(root, 'docs/.vitepress'), {
    recursive: true,
    filter: (path) => !/\.vitepress[/\\](dist|cache)/.test(path),
  })
  symlinkSync(join(ROOT, 'node_modules'), join(root, 'node_modules'))
  writeFileSync(join(root, 'package.json'), JSON.stringify({ name: 'x', type: 'module', ...description }))
  writeFileSync(join(root, 'src/index.ts'), '')
  writeFileSync(join(root, 'README.md'), '# Home\n\n## Limits & more: `--all`\n')
  writeFileSync(join(root, 'docs/page.md'), `# Page\n\n${text}\n`)
  await promisify(execFile)(process.execPath, [VITEPRESS, 'build', 'docs'], { cwd: root })
  return readFileSync(join(root, 'docs/.vitepress/dist/page.html'), 'utf8')
}

test('links work as on a forge; one to a source file is its text where no forge is known; braces are text', async () => {
  const page = await buildPage(
    '[Home](../README.md#limits--more---all), [source](../src/index.ts).\n\nText {{ one }} and `{{ two }}`.',
  )
  expect(page).toContain('<a href="/#limits--more---all">Home</a>, source.')
  expect(page).toMatch(/Text {{ one }} and <code[^>]*>{{ two }}<\/code>/)
})

test('a link to a source file leads to the forge that package.json names', async () => {
  const repository = { type: 'git', url: 'git+https://forge.example.com/a/b.git' }
  const page = await buildPage('[source](../src/index.ts), [folder](../src)', { repository })
  expect(page).toContain('href="https://forge.example.com/a/b/blob/HEAD/src/index.ts"')
  expect(page).toContain('href="https://forge.example.com/a/b/tree/HEAD/src"')
})

test.each([
  ['a file that is not there', '[x](no-such-page.md)'],
  ['an anchor that is not there', '[x](../README.md#no-such-heading)'],
  ['a page of the site that is not there', '<a href="/no-such-page.html">x</a>'],
])('a link to %s fails the build', async (_, link) => {
  await expect(buildPage(link)).rejects.toMatchObject({ code: 1 })
})

describeWith(['chromium'], () => {
  test.each(['light', 'dark'] as const)('on a phone no page scrolls sideways: %s', async (colorScheme) => {
    const { page, mishaps } = await openPage(origin, { colorScheme, viewport: { width: 390, height: 800 } })
    const widths: [path: string, width: number][] = []
    for (const path of builtPages()) {
      await page.goto(`${origin}/${path}`)
      await page.locator('.VPDoc').waitFor()
      widths.push([path, await page.evaluate(() => document.documentElement.scrollWidth)])
    }
    expect(widths.filter(([, width]) => width > 390)).toEqual([])
    expect(mishaps).toEqual([])
  })

  test('light and dark are as the reader has them, and can be switched', async () => {
    const { page } = await openPage(origin, { colorScheme: 'dark', viewport: { width: 1280, height: 900 } })
    const lightness = () =>
      page.evaluate(() => {
        const [red = 0] = getComputedStyle(document.body).backgroundColor.match(/\d+/g)?.map(Number) ?? []
        return red > 128 ? 'light' : 'dark'
      })
    await page.goto(origin)
    expect(await lightness()).toBe('dark')
    await page.getByRole('switch').first().click()
    await expect.poll(lightness).toBe('light')
    await page.emulateMedia({ colorScheme: 'light' })
    await page.evaluate(() => localStorage.clear())
    await page.reload()
    expect(await lightness()).toBe('light')
  })

  test('search finds guides before the reference', async () => {
    const { page } = await openPage(origin, { viewport: { width: 1280, height: 900 } })
    await page.goto(origin)
    await page.getByRole('button', { name: 'Search' }).first().click()
    await page.getByRole('searchbox').fill('redis')
    const results = page.locator('.VPLocalSearchBox .result')
    await results.first().waitFor()
    const addresses = await results.evaluateAll((nodes) =>
      nodes.map((node) => node.getAttribute('href') ?? ''),
    )
    expect(addresses.length).toBeGreaterThan(3)
    expect(addresses.slice(0, 3).filter((address) => /\/(reference|explain)\//.test(address))).toEqual([])
  })

  test('search finds a word, and leads to where it stands', async () => {
    const { page, mishaps } = await openPage(origin, { viewport: { width: 1280, height: 900 } })
    await page.goto(origin)
    await page.getByRole('button', { name: 'Search' }).first().click()
    await page.getByRole('searchbox').fill('watchdog')
    const result = page.locator('.VPLocalSearchBox .result').first()
    await result.waitFor()
    await result.click()
    await page.waitForURL(/\.html#|\/#/)
    await expect
      .poll(async () => (await page.locator('.VPDoc').textContent())?.toLowerCase())
      .toContain('watchdog')
    expect(mishaps).toEqual([])
  })

  test('pictures are shown', async () => {
    const { page } = await openPage(origin)
    await page.goto(`${origin}/index.html`)
    const images = page.locator('.vp-doc img')
    await images.first().waitFor()
    await expect
      .poll(() =>
        images.evaluateAll((nodes) =>
          nodes.every((node) => node instanceof HTMLImageElement && node.complete && node.naturalWidth > 0),
        ),
      )
      .toBe(true)
  })
})
