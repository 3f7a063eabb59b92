import { readdirSync, readFileSync } from 'node:fs'
import { basename, dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The folder of the package, without a slash at its end. */
export const ROOT = fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, '')

/** Groups of the sidebar by folder of `docs`, in order; other folders follow, `contribute` is not on the site. */
const GROUPS: Readonly<Record<string, string>> = {
  start: 'Start',
  write: 'Write plug-ins',
  serve: 'Serve',
  protect: 'Protect',
  operate: 'Operate',
  reference: 'Reference',
  explain: 'Explain',
}

/** One page of the site. */
export interface Page {
  /** Path of the Markdown file from the package root: `docs/write/state.md`. */
  readonly file: string
  /** Path on the site: `write/state.md`. A README becomes the `index.md` of its folder. */
  readonly path: string
  /** Its first heading. */
  readonly title: string
}

/** One group of the sidebar. */
export interface PageGroup {
  readonly title: string
  /** The folder of `docs` with its pages. */
  readonly folder: string
  readonly pages: readonly Page[]
}

/**
 * Finds the pages of the site: the README, and Markdown files in the folders of `docs` except those for contributors. A new file
 * is a new page.
 *
 * @returns Pages in the order in which the README links to them; the others follow, sorted by name.
 * @throws Error if a file has no heading.
 */
export function findPages(): readonly Page[] {
  const files = ['README.md', ...['docs', ...foldersOf('docs')].flatMap(markdownOf)]
  const readme = read('README.md')
  const place = (file: string) => {
    const at = readme.lastIndexOf(`](${file}`)
    return at < 0 ? readme.length : at
  }
  files.sort((a, b) => place(a) - place(b))
  return files.map((file) => ({ file, path: pathOf(file), title: titleOf(file) }))
}

/** Returns the groups of the sidebar: the home page with those of `docs/start`, and each other folder of `docs`. */
export function groupPages(pages: readonly Page[]): readonly PageGroup[] {
  const folderOf = ({ path }: Page) => (path.includes('/') ? dirname(path) : 'start')
  const folders = new Set([...Object.keys(GROUPS), ...pages.map(folderOf)])
  return [...folders]
    .map((folder) => ({
      title: GROUPS[folder] ?? folder,
      folder,
      pages: pages
        .filter((page) => folderOf(page) === folder)
        .sort((a, b) => Number(b.path === 'index.md') - Number(a.path === 'index.md')),
    }))
    .filter((group) => group.pages.length > 0)
}

/** Returns all folders below a folder whose pages are on the site. */
function foldersOf(folder: string): string[] {
  return readdirSync(`${ROOT}/${folder}`, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => relative(ROOT, join(entry.parentPath, entry.name)))
    .filter((path) => !path.includes('/.') && !path.startsWith('docs/contribute'))
    .sort()
}

function markdownOf(folder: string): string[] {
  const names = readdirSync(join(ROOT, folder)).filter((name) => name.endsWith('.md'))
  return names.sort().map((name) => join(folder, name))
}

function pathOf(file: string): string {
  const path = file.replace(/^docs\//, '')
  return basename(path) === 'README.md' ? path.replace(/README\.md$/, 'index.md') : path
}

function titleOf(file: string): string {
  const [, title] = /^# (.+)$/m.exec(read(file)) ?? []
  if (title === undefined) throw new Error(`${file} has no heading: begin it with "# Title"`)
  return title.replaceAll('`', '')
}

function read(file: string): string {
  return readFileSync(`${ROOT}/${file}`, 'utf8')
}
