import { readFileSync, writeFileSync } from 'node:fs'
import { argv, exit } from 'node:process'
import { fileURLToPath } from 'node:url'
import { loadSchema, routeSchema, serverSchema } from '../src/options/options-schema.ts'
import { schemasOf } from '../src/options/schema.ts'
import { ROOMS, sources } from './rooms.ts'
import { withTables } from './tables.ts'

/*
 * How large the sources are, and how many files a change touches. The figures are checked in, in growth.md.
 * `npm run check` compares those that the sources show, and a system test compares those of the journeys. Both fail if a
 * figure has grown. `npm run journeys -- 'The reason.'` writes the page, and `npx tsx scripts/growth.ts 'The reason.'`
 * does so without running a journey.
 */

const PAGE = new URL('growth.md', import.meta.url)

/** The figures of one row of a table. */
export interface Row {
  readonly name: string
  readonly figures: readonly number[]
}

/** One table of the page. */
interface TableShape {
  /** The headings of the columns, without that of the reasons. */
  readonly columns: readonly string[]
  /** The steps to which the figures are rounded up, so that small changes need no new row. Default: 1. */
  readonly steps?: readonly number[]
}

const TABLES = {
  folders: { columns: ['folder', 'files', 'lines', 'exports'], steps: [1, 100, 10] },
  journeys: {
    columns: ['journey', 'functions', 'files', 'functions that call another one', 'their files'],
    steps: [10, 5, 10, 5],
  },
  options: { columns: ['option', 'files that name it'] },
  services: { columns: ['service', 'files that import it'] },
} as const satisfies Readonly<Record<string, TableShape>>

export type TableName = keyof typeof TABLES

/** The rows of some tables. */
export type TableRows = Readonly<Partial<Record<TableName, readonly Row[]>>>

/** An option that at most so many files name has no row. */
const FILES_OF_AN_OPTION = 3

/** The figures that the sources show. @param files - The text of each file, by its path below `src/`. */
export function staticFigures(files: ReadonlyMap<string, string>): TableRows {
  const code = new Map([...files].map(([path, text]) => [path, withoutComments(text)]))
  const naming = (pattern: RegExp) => [...code].filter(([, text]) => pattern.test(text)).length
  const within = (folder: string) => [...files].filter(([path]) => path.startsWith(`${folder}/`))
  const folders = ROOMS.map(([folder]) => sizeOf(`${folder}/`, within(folder)))
  const schemas = [routeSchema, loadSchema, serverSchema].flatMap((schema) => Object.keys(schemasOf(schema)))
  const options = [...new Set(schemas)]
    .filter((name) => /[A-Z]/.test(name)) // names of one word have other meanings too
    .map((name) => ({ name, figures: [naming(new RegExp(`(?<![\\w'-])${name}\\b(?!-)`))] }))
    .filter(({ figures: [count = 0] }) => count > FILES_OF_AN_OPTION)
  const services = [...files.keys()]
    .map((path) => /^guest\/services\/(\w+)\.ts$/.exec(path)?.[1])
    .filter((name) => name !== undefined && !['service', 'services'].includes(name))
    .map((name) => ({ name: `${name}`, figures: [naming(new RegExp(`services/${name}\\.ts'`))] }))
  return { folders, options, services }
}

function sizeOf(name: string, files: readonly (readonly [path: string, text: string])[]): Row {
  const texts = files.map(([, text]) => text)
  const lines = texts.map((text) => text.split('\n').length - 1)
  return { name, figures: [texts.length, sum(lines), sum(texts.map(countExports))] }
}

function countExports(text: string): number {
  const declared = text.match(/^export (?!type \{|[{*])/gm)?.length ?? 0
  const lists = [...text.matchAll(/^export (?:type )?\{([^}]*)\}/gm)].map(
    ([, names = '']) => names.split(',').filter((name) => name.trim() !== '').length,
  )
  return declared + sum(lists)
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0)
}

function withoutComments(text: string): string {
  return text.replaceAll(/\/\*[\s\S]*?\*\/|(?<!:)\/\/.*$/gm, '')
}

/** The page as it is checked in. */
export function readGrowth(): string {
  return readFileSync(PAGE, 'utf8')
}

export function writeGrowth(page: string): void {
  writeFileSync(PAGE, page)
}

/** Figures that are above those of the page, or so far below them that the page says nothing any more: a line each. */
export function growth(page: string, figures: TableRows): string[] {
  return entriesOf(figures).flatMap(([table, rows]) => {
    const written = rowsOf(page, table)
    const { columns } = TABLES[table]
    const wrong = rows.flatMap(({ name, figures }) => {
      const row = written.get(name)
      return figures.flatMap((figure, index) => {
        const limit = row?.figures[index] ?? 0
        const what = `${table}, ${name}: ${columns[index + 1]}`
        if (figure > limit) return [`${what}: ${figure}, more than ${limit}`]
        const rounded = roundUp(table, index, figure)
        return rounded * 1.2 + 5 < limit ? [`${what}: ${figure}, far fewer than ${limit}`] : []
      })
    })
    const names = new Set(rows.map(({ name }) => name))
    const gone = [...written.keys()].filter((name) => !names.has(name))
    return [...wrong, ...gone.map((name) => `${table}, ${name}: is not there any more`)]
  })
}

/**
 * The page with new figures. A row that grows gets the reason; the others keep theirs.
 *
 * @throws Error if a row grows without a reason.
 */
export function renderGrowth(page: string, figures: TableRows, reason: string): string {
  const grown: string[] = []
  const tables = entriesOf(figures).map(([table, rows]) => {
    const written = rowsOf(page, table)
    const lines = rows.map(({ name, figures }) => {
      const row = written.get(name)
      const isGrown = figures.some((figure, index) => figure > (row?.figures[index] ?? 0))
      if (isGrown) grown.push(`${table}, ${name}`)
      const rounded = figures.map((figure, index) => roundUp(table, index, figure))
      const cells = [`\`${name}\``, ...rounded.map(String), isGrown ? reason : (row?.reason ?? '')]
      return `| ${cells.join(' | ')} |`.replace('|  |', '| |')
    })
    const { columns } = TABLES[table]
    const head = [`| ${[...columns, 'why it last grew'].join(' | ')} |`]
    const rule = `| --- |${columns
      .slice(1)
      .map(() => ' --: |')
      .join('')} --- |`
    return [table, `${[...head, rule, ...lines].join('\n')}\n`] as const
  })
  if (grown.length > 0 && reason === '')
    throw new Error(`these have grown: ${grown.join('; ')}. Say why: npm run journeys -- 'The reason.'`)
  return withTables(page, Object.fromEntries(tables))
}

function entriesOf(figures: TableRows): [TableName, readonly Row[]][] {
  const names = Object.keys(TABLES) as TableName[]
  return names.flatMap((name): [TableName, readonly Row[]][] => {
    const rows = figures[name]
    return rows ? [[name, rows]] : []
  })
}

function roundUp(table: TableName, index: number, figure: number): number {
  const { steps = [] }: TableShape = TABLES[table]
  const step = steps[index] ?? 1
  return Math.ceil(figure / step) * step
}

/** A row of the page. */
interface WrittenRow extends Row {
  readonly reason: string
}

/** The rows of a table of the page, by their names. */
export function rowsOf(page: string, table: TableName): ReadonlyMap<string, WrittenRow> {
  const [, text = ''] = new RegExp(`<!-- ${table} -->\n([^]*?)<!-- /${table} -->`).exec(page) ?? []
  const lines = text.split('\n').filter((line) => line.startsWith('| `'))
  const rows = lines.map((line): WrittenRow => {
    const cells = line.split('|').map((cell) => cell.trim())
    const [, name = '', ...rest] = cells
    const figures = rest.slice(0, TABLES[table].columns.length - 1).map(Number)
    return { name: name.replaceAll('`', ''), figures, reason: rest[figures.length] ?? '' }
  })
  return new Map(rows.map((row) => [row.name, row]))
}

if (argv[1] === fileURLToPath(import.meta.url)) {
  const figures = staticFigures(sources())
  const [, , reason] = argv
  if (reason) writeGrowth(renderGrowth(readGrowth(), figures, reason))
  const wrong = growth(readGrowth(), figures)
  for (const line of wrong) console.error(line)
  if (wrong.length > 0) console.error("Write the page anew: npx tsx scripts/growth.ts 'The reason.'")
  exit(wrong.length === 0 ? 0 : 1)
}
