import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import type { MarkdownRenderer } from 'vitepress'
import { type Page, ROOT } from './pages.ts'

/** Returns the URL of a file or folder in the repository, given its path in the package; `undefined` if package.json has no `repository`. */
export type ForgeAddress = (file: string) => string | undefined

/** @param repository - The `repository` field of package.json: a URL or one of npm's short forms. */
export function forgeAddress(repository: string | { url: string } | undefined): ForgeAddress {
  const url = typeof repository === 'object' ? repository.url : repository
  const web = url
    ?.replace(/^git\+/, '')
    .replace(/^(github:)?(?=[\w.-]+\/[\w.-]+$)/, 'https://github.com/')
    .replace(/\.git$/, '')
  return (file) => {
    if (web === undefined) return undefined
    return `${web}/${statSync(join(ROOT, file)).isDirectory() ? 'tree' : 'blob'}/HEAD/${file}`
  }
}

/**
 * Returns the anchor of a heading as GitHub generates it, so that a link to `#a-heading` works there and on the site.
 *
 * @see {@link https://docs.github.com/en/get-started/writing-on-github/getting-started-with-writing-and-formatting-on-github/basic-writing-and-formatting-syntax#section-links}
 */
export function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .trim()
    .replace(/[^\p{L}\p{M}\p{N}_\- ]/gu, '')
    .replaceAll(' ', '-')
}

/**
 * Rewrites relative links between Markdown files to links between pages. A link to any other file points to the repository;
 * without a `repository` field only the link's text remains.
 *
 * @throws Error while a page is rendered, if there is no such file.
 */
export function useFileLinks(md: MarkdownRenderer, pages: readonly Page[], onForge: ForgeAddress): void {
  const paths = new Map(pages.map(({ file, path }) => [file, path]))
  const hrefOf = (href: string, from: string): string | undefined => {
    if (/^([a-z][a-z\d+.-]*:|\/\/|#)/i.test(href)) return href
    const [, path = '', rest = ''] = /^([^?#]*)(.*)$/.exec(href) ?? []
    const file = relative(ROOT, resolve(dirname(from), decodeURI(path)))
    if (file.startsWith('..') || !existsSync(join(ROOT, file)))
      throw new Error(`${relative(ROOT, from)}: dead link: ${href}`)
    const page = paths.get(file) ?? paths.get(join(file, 'README.md'))
    return page === undefined ? onForge(file) : `/${page}${rest}`
  }
  md.core.ruler.push('file-links', (state) => {
    for (const block of state.tokens) {
      let isDropped = false // links are not nested
      block.children =
        block.children?.filter((token) => {
          if (token.type === 'link_close') return !isDropped
          const href = token.type === 'link_open' ? token.attrGet('href') : null
          if (href === null) return true
          const address = hrefOf(href, state.env.realPath ?? state.env.path)
          isDropped = address === undefined
          if (address !== undefined) token.attrSet('href', address)
          return !isDropped
        }) ?? null
    }
  })
}

/**
 * Checks links and anchors between the built pages.
 *
 * @param folder - The folder that contains the built site.
 * @param base - The site's base path, with a slash at both ends.
 * @returns Dead links as `page: href`.
 */
export function findDeadLinks(folder: string, base: string): readonly string[] {
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  const pages = new Map(
    files
      .filter((file) => file.endsWith('.html'))
      .map((file) => [file, readFileSync(join(folder, file), 'utf8')] as const),
  )
  const ids = new Map([...pages].map(([file, html]) => [file, new Set(attributes(html, 'id'))]))
  return [...pages].flatMap(([file, html]) =>
    [...new Set(attributes(html, 'href'))]
      .filter((href) => {
        const site = 'http://site'
        if (!URL.canParse(href, site)) return true
        const url = new URL(href, `${site}${base}${file}`)
        if (url.origin !== site) return false
        const path = decodeURIComponent(url.pathname.slice(base.length)).replace(/(^|\/)$/, '$1index.html')
        if (!url.pathname.startsWith(base) || !files.includes(path)) return true
        return url.hash !== '' && ids.has(path) && !ids.get(path)?.has(decodeURIComponent(url.hash.slice(1)))
      })
      .map((href) => `${file}: ${href}`),
  )
}

function attributes(html: string, name: string): string[] {
  return [...html.matchAll(new RegExp(`\\s${name}="([^"]*)"`, 'g'))].map(([, value = '']) =>
    value.replaceAll('&amp;', '&'),
  )
}
