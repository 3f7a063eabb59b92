import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { afterAll, onTestFinished } from 'vitest'

/** Debian's. */
const CHROMIUM = '/usr/bin/chromium'

let browser: Promise<Browser> | undefined
afterAll(async () => (await browser)?.close())

/** A page, and its errors and foreign requests. */
export interface OpenPage {
  readonly page: Page
  /** Errors of its scripts, messages on its console, and requests to other hosts. */
  readonly mishaps: readonly string[]
}

/** A new page, in a browser that all tests of a file share; closed when the test ends. */
export async function openPage(origin: string, options: BrowserContextOptions = {}): Promise<OpenPage> {
  // In a container, Chromium's own sandbox cannot create its namespaces.
  browser ??= chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox', '--disable-gpu'] })
  const context = await (await browser).newContext(options)
  onTestFinished(() => context.close())
  const page = await context.newPage()
  page.setDefaultTimeout(20_000)
  const mishaps: string[] = []
  page.on('pageerror', (error) => mishaps.push(String(error)))
  page.on('console', (message) => {
    // Chromium logs each error response; a refusal is one.
    const isAnswer = message.text().startsWith('Failed to load resource: the server responded')
    if (message.type() !== 'log' && !isAnswer) mishaps.push(message.text())
  })
  page.on('request', (request) => {
    if (new URL(request.url()).origin !== origin) mishaps.push(`request to ${request.url()}`)
  })
  return { page, mishaps }
}
