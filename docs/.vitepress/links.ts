import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import type { MarkdownRenderer } from 'vitepress'
import { type Page, ROOT } from './pages.ts'

/** The address of a file or folder on the forge, from its path in the package; `undefined` if the package names no forge. */
export type ForgeAddress = (file: string) => string | undefined

/** @param repository - The field of package.json: a web address, or one of npm's short forms of it. */
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
 * The anchor of a heading, as forges make it: a link to `#a-heading` works there and on the site.
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
 * Makes the links between files, which forges understand, links between pages. A link to a file that is no page leads to the
 * forge; without a forge its text stays.
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
 * Checks the links of the built pages to each other, with their anchors.
 *
 * @param folder - Where the site was built.
 * @param base - The path that its addresses begin with, with slashes around it.
 * @returns The dead ones, as `page: href`.
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
