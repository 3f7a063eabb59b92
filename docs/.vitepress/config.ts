import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { defineConfig, type MarkdownRenderer } from 'vitepress'
import { anchorOf, findDeadLinks, forgeAddress, useFileLinks } from './links.ts'
import { findPages, groupPages, type PageGroup, ROOT } from './pages.ts'

const { name, description, repository } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
const pages = findPages()
const groups = groupPages(pages)

/** Folders without pages are excluded: the toolchains below `plugins` have thousands of files. */
const others = readdirSync(ROOT, { withFileTypes: true }).flatMap((entry) => {
  if (entry.name === 'docs' || entry.name === 'README.md') return []
  return [entry.isDirectory() ? `${entry.name}/**` : entry.name]
})

const linkOf = (path: string) => `/${path.replace(/(^|\/)index\.md$/, '$1').replace(/\.md$/, '.html')}`

const navOf = ({ title, folder, pages: [first] }: PageGroup) =>
  first === undefined ? [] : [{ text: title, link: linkOf(first.path), activeMatch: `^/${folder}/` }]

/** Characters of inline code that fit in a line on a phone. */
const SHORT = 28

const ICON = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#654ff0"/><path d="M6 11l4 12 6-12 6 12 4-12" fill="none" stroke="#fff" stroke-width="3"/></svg>`

/** Escapes braces: GitHub does not evaluate Vue expressions, so neither does the site. */
function escapeBraces(md: MarkdownRenderer): void {
  for (const name of ['text', 'code_inline'] as const) {
    const rule = md.renderer.rules[name]
    md.renderer.rules[name] = (...args) => (rule?.(...args) ?? '').replaceAll('{{', '&#123;&#123;')
  }
}

/** The site is built from the Markdown files that GitHub shows. Pages need no front matter and no entry here. */
export default defineConfig({
  title: name,
  description,
  lang: 'en',
  head: [['link', { rel: 'icon', href: `data:image/svg+xml,${encodeURIComponent(ICON)}` }]],
  srcDir: '..',
  srcExclude: [...others, 'docs/contribute/**'],
  rewrites: Object.fromEntries(pages.map(({ file, path }) => [file, path])),
  outDir: '.vitepress/dist',
  cacheDir: '.vitepress/cache',
  markdown: {
    anchor: { slugify: anchorOf },
    languageAlias: { wat: 'wasm' },
    config(md) {
      useFileLinks(md, pages, forgeAddress(repository))
      escapeBraces(md)
      md.core.ruler.push('short-code', ({ tokens }) => {
        for (const token of tokens.flatMap(({ children }) => children ?? []))
          if (token.type === 'code_inline' && token.content.length <= SHORT) token.attrJoin('class', 'short')
      })
    },
  },
  themeConfig: {
    search: {
      provider: 'local',
      options: {
        miniSearch: {
          searchOptions: { boostDocument: (id: string) => (/^\/(?:reference|explain)\//.test(id) ? 0.3 : 1) },
        },
      },
    },
    outline: [2, 3],
    nav: groups.flatMap(navOf),
    sidebar: groups.map((group) => ({
      text: group.title,
      collapsed: false,
      items: group.pages.map(({ title, path }) => ({ text: title, link: linkOf(path) })),
    })),
  },
  buildEnd({ outDir, site }) {
    const dead = findDeadLinks(outDir, site.base)
    if (dead.length > 0) throw new Error(`dead links:\n${dead.join('\n')}`)
  },
})
