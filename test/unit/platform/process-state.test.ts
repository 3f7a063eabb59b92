import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { renderSource } from '../../../scripts/reference.ts'
import { PROCESS_STATE } from '../../../src/platform/process-state.ts'

const SRC = new URL('../../../src/', import.meta.url)

/** A thread, a child process and a page of the console have state of their own, which servers do not share. */
const OWN = /^admin\/console\/|-(?:thread|process)\.ts$/

test.each([
  ['let count = 0', 'count'],
  ['export const table = new Map<string, number>()', 'table'],
  ['const queue: (() => void)[] = []', 'queue'],
  ['const open = new Turns()', 'open'],
  ['const NAMES: ReadonlyMap<string, number> = new Map()', undefined],
  ["const NAMES = new Set(['a'])", undefined],
  ['const cache = new WeakMap<object, number>()', undefined],
  ['  const inner = new Map()', undefined],
])('state of a module is found: %s', (line, name) => {
  expect(stateIn(line)).toEqual(name === undefined ? [] : [name])
})

test('what servers in one process share is listed', () => {
  const files = readdirSync(SRC, { recursive: true, encoding: 'utf8' })
  const found = files
    .filter((file) => file.endsWith('.ts') && !OWN.test(file))
    .flatMap((file) => stateIn(readFileSync(new URL(file, SRC), 'utf8')).map((name) => `${file} ${name}`))
  expect(found.sort()).toEqual(Object.keys(PROCESS_STATE).sort())
})

test('the page about the source has the table (npm run reference)', () => {
  const page = readFileSync(new URL('../docs/contribute/source.md', SRC), 'utf8')
  expect(page).toBe(renderSource(page))
})

/** Names of the variables of a module, and of its constants that can change: objects of a class, empty collections. */
function stateIn(text: string): string[] {
  return text.split('\n').flatMap((line) => {
    const [, variable] = /^(?:export )?let (\w+)/.exec(line) ?? []
    if (variable !== undefined) return [variable]
    const [, constant, type = '', value = ''] = /^(?:export )?const (\w+)(: .+?)? = (.*)$/.exec(line) ?? []
    if (constant === undefined || /^: Readonly/.test(type)) return []
    const isFilled = /^new (?:Map|Set)(?:<.+>)?\((?!\))/.test(value)
    const isState = value === '[]' || (value.startsWith('new ') && !isFilled && !UNCHANGING.test(value))
    return isState ? [constant] : []
  })
}

/** Objects that nothing changes, and caches that live as long as their keys. */
const UNCHANGING =
  /^new (?:TextDecoder|TextEncoder|URL|Uint8Array|Int32Array|Weak(?:Map|Set)|WebAssembly\.\w+)\b/
