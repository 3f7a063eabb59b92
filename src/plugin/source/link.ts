import { basename } from 'node:path'
import { isUrl } from './url.ts'

/** A module that the plug-in imports from. */
export interface Link {
  /** What the plug-in imports it by. */
  readonly name: string
  /** Path or URL of a `.wasm`; may end in `#sha256=<hex>`. */
  readonly source: string
}

/**
 * Reads `[name=]path|url`; without a name it is the file's, without `.wasm`. A name may have slashes and colons, such
 * as `extism:host/user`, so a relative path with `=` in it has to begin with `../../source/`.
 */
export function parseLink(text: string): Link {
  const match = isPlace(text) ? null : /^([^=#?\\]+)=(.+)$/s.exec(text)
  if (match) return { name: match[1] ?? '', source: match[2] ?? '' }
  return { name: sourceName(text).replace(/\.wasm$/, ''), source: text }
}

/** Whether a text begins as only paths and URLs do. */
function isPlace(text: string): boolean {
  return isUrl(text) || /^(?:\.{0,2}[/\\]|[a-z]:[/\\])/i.test(text)
}

/** The name of the file that a path or URL leads to; of a URL without one, its host. */
export function sourceName(source: string): string {
  const place = source.replace(/#sha256=[^#]*$/, '')
  if (!isUrl(place) || !URL.canParse(place)) return basename(place)
  const { pathname, host } = new URL(place)
  return basename(pathname) || host
}
