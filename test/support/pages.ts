import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

/** A fenced block of a page. */
export interface Block {
  /** Path of its page from the package's root. */
  readonly page: string
  /** The language of a code block: `sh`, `ts`, `yaml`. Empty if there is none. */
  readonly language: string
  readonly code: string
}

/** The README and all Markdown of `docs`: paths from the package's root, in the order of their names. */
export function documentPages(): string[] {
  const pages = readdirSync(join(ROOT, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.md') && !path.startsWith('.'))
    .map((path) => `docs/${path}`)
  return ['README.md', ...pages.sort()]
}

/** @param page - Its path from the package's root. */
export function readPage(page: string): string {
  return readFileSync(join(ROOT, page), 'utf8')
}

/** The fenced blocks of a page, in their order. Those of the steps of a list are indented. */
export function blocksOf(page: string): Block[] {
  const fenced = readPage(page).matchAll(/^( *)```(\w*)\n(.*?)^\1```$/gms)
  return [...fenced].map(([, indent = '', language = '', code = '']) => ({
    page,
    language,
    code: code.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
  }))
}

/** The TypeScript of a page, block by block. */
export function pageSnippets(page: string): string[] {
  return blocksOf(page).flatMap(({ language, code }) => (language === 'ts' ? [code] : []))
}

/** The scripts of a page: JavaScript and TypeScript that export functions. */
export function pageScripts(page: string): string[] {
  return blocksOf(page).flatMap(({ language, code }) =>
    (language === 'ts' || language === 'js') && /^export /m.test(code) ? [code] : [],
  )
}

/** The YAML between two comments of a page: `<!-- name -->` and `<!-- /name -->`. */
export function markedYaml(page: string, name: string): string {
  const marked = readPage(page).split(`<!-- ${name} -->\n`)[1]?.split(`<!-- /${name} -->`)[0] ?? ''
  return marked.replaceAll(/^```.*$/gm, '')
}

/** A link of a page to a file or a heading of this repository. */
export interface PageLink {
  readonly href: string
  /** The target, relative to the package's root; the page itself if the link has only an anchor. */
  readonly path: string
  /** Without `#`; empty if there is none. */
  readonly anchor: string
}

/** The relative links of a page, including images; code is skipped. */
export function linksOf(page: string): PageLink[] {
  const links = textOf(page).matchAll(/\]\(([^()\s]+)\)|^\[[^\]]+\]:\s*(\S+)/gm)
  return [...links].flatMap(([, inline, reference]) => {
    const href = inline ?? reference ?? ''
    if (/^[a-z][a-z\d+.-]*:|^\/\//i.test(href)) return []
    const [path = '', anchor = ''] = href.split('#')
    return [{ href, path: path === '' ? page : join(dirname(page), decodeURI(path)), anchor }]
  })
}

/**
 * The anchors of a page's headings, as GitHub makes them.
 *
 * @see {@link https://docs.github.com/en/get-started/writing-on-github/getting-started-with-writing-and-formatting-on-github/basic-writing-and-formatting-syntax#section-links}
 */
export function anchorsOf(page: string): Set<string> {
  const text = readPage(page).replaceAll(/^(```|~~~)[\s\S]*?^\1/gm, '')
  const seen = new Map<string, number>()
  const anchors = [...text.matchAll(/^#{1,6} +(.+?)(?: +#+)?$/gm)].map(([, heading = '']) => {
    const slug = heading
      .replaceAll(/!?\[([^\]]*)\]\([^)]*\)/g, '$1')
      .toLowerCase()
      .trim()
      .replaceAll(/[^\p{L}\p{M}\p{N}_\- ]/gu, '')
      .replaceAll(' ', '-')
    const times = seen.get(slug) ?? 0
    seen.set(slug, times + 1)
    return times === 0 ? slug : `${slug}-${times}`
  })
  const explicit = [...text.matchAll(/<a (?:id|name)="([^"]+)"/g)].map(([, id = '']) => id)
  return new Set([...anchors, ...explicit])
}

/** A page without its code. */
function textOf(page: string): string {
  return readPage(page)
    .replaceAll(/^(```|~~~)[\s\S]*?^\1/gm, '')
    .replaceAll(/(`+)[^`\n]+?\1(?!`)/g, '')
}
