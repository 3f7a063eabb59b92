import { readdirSync, readFileSync } from 'node:fs'
import { basename, dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The folder of the package, without a slash at its end. */
export const ROOT = fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, '')

/** What a reader meets first comes first; folders that are not named here follow. */
const FOLDERS = ['guide', 'operate', 'reference', 'explain']

/** One page of the site. */
export interface Page {
  /** Its Markdown, from the package's root: `docs/guide/state.md`. */
  readonly file: string
  /** The same on the site: `guide/state.md`. The README is `index.md`, that of a folder is the folder's `index.md`. */
  readonly path: string
  /** Its first heading. */
  readonly title: string
}

/** Pages below one heading of the sidebar. */
export interface PageGroup {
  readonly title: string
  /** Its folder on the site, if all its pages have the same. */
  readonly folder?: string
  readonly pages: readonly Page[]
}

/**
 * The pages of the site: the Markdown of the root, of `bench`, `examples` and `plugins`, and of all folders of `docs` and `src`.
 * No list of them is kept: a new file is a new page.
 *
 * @returns In the order in which the README links to them, as its index is the order in which to read. Those that it does not
 *   link to follow by name.
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

/** The groups of the sidebar: what to read first, each folder of `docs`, what concerns the project, and what the sources say. */
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

/** Those in it, and those in these. */
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
