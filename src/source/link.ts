import { basename } from 'node:path'
import { isUrl } from './url.ts'

/** A module that the plug-in imports from. */
export interface Link {
  /** What the plug-in imports it by. */
  readonly name: string
  /** Path or URL of a `.wasm`; may end in `#sha256=<hex>`. */
  readonly source: string
}

/** Reads `[name=]path|url`; without a name it is the file's, without `.wasm`. */
export function parseLink(text: string): Link {
  const match = /^([^=#?/\\]+)=(.+)$/s.exec(text)
  if (match) return { name: match[1] ?? '', source: match[2] ?? '' }
  return { name: sourceName(text).replace(/\.wasm$/, ''), source: text }
}

/** The name of the file that a path or URL leads to; of a URL without one, its host. */
export function sourceName(source: string): string {
  const place = source.replace(/#sha256=[^#]*$/, '')
  if (!isUrl(place) || !URL.canParse(place)) return basename(place)
  const { pathname, host } = new URL(place)
  return basename(pathname) || host
}
