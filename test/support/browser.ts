import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { afterAll, onTestFinished } from 'vitest'

/** Debian's. */
const CHROMIUM = '/usr/bin/chromium'

let browser: Promise<Browser> | undefined
afterAll(async () => (await browser)?.close())

/** A page, and what it did that a good one does not. */
export interface OpenPage {
  readonly page: Page
  /** Errors of its scripts, what its console was told, and requests to others. */
  readonly mishaps: readonly string[]
}

/** A page of its own, in a browser that all tests of a file share; closed when the test ends. */
export async function openPage(origin: string, options: BrowserContextOptions = {}): Promise<OpenPage> {
  // In a container nobody may make the name spaces of Chromium's own sandbox.
  browser ??= chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox', '--disable-gpu'] })
  const context = await (await browser).newContext(options)
  onTestFinished(() => context.close())
  const page = await context.newPage()
  page.setDefaultTimeout(20_000)
  const mishaps: string[] = []
  page.on('pageerror', (error) => mishaps.push(String(error)))
  page.on('console', (message) => {
    // Chromium tells of each answer that is an error; a refusal is one.
    const isAnswer = message.text().startsWith('Failed to load resource: the server responded')
    if (message.type() !== 'log' && !isAnswer) mishaps.push(message.text())
  })
  page.on('request', (request) => {
    if (new URL(request.url()).origin !== origin) mishaps.push(`request to ${request.url()}`)
  })
  return { page, mishaps }
}
