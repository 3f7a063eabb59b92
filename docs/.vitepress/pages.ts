import { readdirSync, readFileSync } from 'node:fs'
import { basename, dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The folder of the package, without a slash at its end. */
export const ROOT = fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, '')

/** The order of the sidebar; other folders follow. */
const FOLDERS = ['guide', 'operate', 'reference', 'explain']

/** One page of the site. */
export interface Page {
  /** Path of the Markdown file from the package root: `docs/guide/state.md`. */
  readonly file: string
  /** Path on the site: `guide/state.md`. A README becomes the `index.md` of its folder. */
  readonly path: string
  /** Its first heading. */
  readonly title: string
}

/** One group of the sidebar. */
export interface PageGroup {
  readonly title: string
  /** The folder on the site that contains all pages of the group, if there is one. */
  readonly folder?: string
  readonly pages: readonly Page[]
}

/**
 * Finds the pages of the site: Markdown files in the root, `bench`, `examples` and `plugins`, and in all folders of `docs` and
 * `src`. A new file is a new page.
 *
 * @returns Pages in the order in which the README links to them; the others follow, sorted by name.
 * @throws Error if a file has no heading.
 */
export function findPages(): readonly Page[] {
  const files = [
    ...markdownOf('.'),
    ...['bench', 'examples', 'plugins'].flatMap(markdownOf),
    ...['docs', 'src'].flatMap((folder) => [folder, ...foldersOf(folder)]).flatMap(markdownOf),
  ]
  const readme = read('README.md')
  const place = (file: string) => {
    const at = readme.lastIndexOf(`](${file}`)
    return at < 0 ? readme.length : at
  }
  files.sort((a, b) => place(a) - place(b))
  return files.map((file) => ({ file, path: pathOf(file), title: titleOf(file) }))
}

/** Returns the groups of the sidebar: start pages, each folder of `docs`, project files, and READMEs of the sources. */
export function groupPages(pages: readonly Page[]): readonly PageGroup[] {
  const within = (folder: string) => pages.filter(({ path }) => path.startsWith(`${folder}/`))
  const folders = foldersOf('docs').map((folder) => folder.replace(/^docs\//, ''))
  const rank = (folder: string) => (FOLDERS.includes(folder) ? FOLDERS.indexOf(folder) : FOLDERS.length)
  const home = pages.filter(({ path }) => path === 'index.md')
  const groups: PageGroup[] = [
    { title: 'Start', pages: [...home, ...pages.filter(({ file }) => dirname(file) === 'docs')] },
    ...folders
      .filter((folder) => !folder.includes('/'))
      .sort((a, b) => rank(a) - rank(b))
      .map((folder) => ({
        title: folder.charAt(0).toUpperCase() + folder.slice(1),
        folder,
        pages: within(folder),
      })),
    {
      title: 'Project',
      pages: [
        ...pages.filter((page) => dirname(page.file) === '.' && !home.includes(page)),
        ...within('bench'),
      ],
    },
    { title: 'Sources', pages: ['plugins', 'examples', 'src'].flatMap(within) },
  ]
  return groups.filter((group) => group.pages.length > 0)
}

/** Returns all folders below a folder. */
function foldersOf(folder: string): string[] {
  return readdirSync(`${ROOT}/${folder}`, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => relative(ROOT, join(entry.parentPath, entry.name)))
    .filter((path) => !path.includes('/.'))
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
