import { readdirSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { extname } from 'node:path'
import { answerHeaders } from './answer-headers.ts'
import type { AdminFeature } from './feature.ts'

const FOLDER = new URL('console/', import.meta.url)

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
}

/** Scripts, styles, the icon and requests of the listener itself; text is never taken for markup. */
const POLICY = `${answerHeaders['content-security-policy']}; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; require-trusted-types-for 'script'`

/**
 * The console: a page at `/`, and the files of its folder. They need no token, for a browser has none to begin with: the
 * page sends it with all that it asks.
 */
export const addConsole: AdminFeature = (app) => {
  const config = { needsNoToken: true } as const
  for (const name of readdirSync(FOLDER)) {
    const type = TYPES[extname(name)]
    if (type === undefined) continue
    const url = name === 'index.html' ? '/' : `/console/${name}`
    app.get(url, { config }, async (_request, reply) => {
      reply.headers({ 'content-type': type, 'content-security-policy': POLICY })
      return readFile(new URL(name, FOLDER))
    })
  }
}
