import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseAst } from 'rolldown/parseAst'
import { expect, test } from 'vitest'
import { canBacktrack } from '../../support/backtracking.ts'

test.each<[string, string]>([
  ['^(a+)+$', ''],
  ['^(a|a)*$', ''],
  ['^(a*)*$', ''],
  ['^a*a*$', ''],
  ['a+$', ''],
  ['\\s*,', ''],
  ['^(a|b)*[ab]*$', ''],
  ['^\\s+|\\s+$', 'g'],
  ['(?=.*b)c', ''],
  ['^.*x.*y$', ''],
  ['"(?:[^"\\\\]|\\\\.)*"', ''],
])('%s can backtrack', (source, flags) => {
  expect(canBacktrack(source, flags)).toBe(true)
})

test.each([
  ['^a+$', ''],
  ['a+', 'y'],
  ['^(?:a|b)*$', ''],
  ['^[a-z]+(?:-[a-z]+)*$', ''],
  ['^(?:a?)*$', ''],
  ['x', ''],
  ['[ab]', 'g'],
  ['^\\d{1,3}$', ''],
  ['^a*b*c*$', ''],
])('%s cannot', (source, flags) => {
  expect(canBacktrack(source, flags)).toBe(false)
})

/** Expressions that can backtrack, or are not analysed, by file, and why they take little time all the same. */
const HARMLESS: Readonly<Record<string, readonly (readonly [source: string, reason: string])[]>> = {
  'console/call-view.tsx': [['^\\s*([^:\\s]+)\\s*:\\s*(.*?)\\s*$', 'in a browser, of its user']],
  'console/main.tsx': [['^#?\\/?([^/]*)\\/?(.*)$', 'in a browser, of its user']],
  'src/cli/new/project.ts': [['^license = .*\\n', 'of our own files']],
  'src/engine/subprocess/guest-process.ts': [
    ['^.*(?:FATAL ERROR|Fatal|Error).*$', 'a line always has an end; the text has a limit'],
  ],
  'src/extism/guest-requests.ts': [['\\*+|\\?|\\[!?[^\\]]+\\]|.', 'of the program that opens the plug-in']],
  'src/guest/host-functions.ts': [
    [
      '^\\s+at (?:(.*) \\()?wasm:\\/\\/wasm\\/(?:(.*)-)?[0-9a-f]+:wasm-function\\[(\\d+)\\]',
      'a line has at most 1,000 characters',
    ],
  ],
  'src/observe/log/secrets.ts': [['"(?:[^"\\\\]|\\\\.)*":?', 'each quote of JSON has another one']],
  'src/route/openapi/routes-document.ts': [
    [':(\\w+)(?:\\([^)]*\\))*\\??', 'of URLs of routes, which the operator writes'],
  ],
}

interface Expression {
  readonly file: string
  readonly source: string
  readonly flags: string
}

/** The regular expressions of a file: its literals, and the texts that a schema has as `pattern`. */
function expressionsIn(file: string): Expression[] {
  const found: Expression[] = []
  const visit = (node: unknown): void => {
    if (typeof node !== 'object' || node === null) return
    const { regex, type, key, value } = node as Partial<Record<string, Node>>
    if (regex?.pattern !== undefined) found.push({ file, source: regex.pattern, flags: regex.flags ?? '' })
    if (String(type) === 'Property' && key?.name === 'pattern' && typeof value?.value === 'string')
      found.push({ file, source: value.value, flags: 'u' })
    for (const inner of Object.values(node)) visit(inner)
  }
  visit(parseAst(readFileSync(file, 'utf8'), { lang: file.endsWith('x') ? 'tsx' : 'ts' }))
  return found
}

interface Node {
  readonly pattern?: string
  readonly flags?: string
  readonly name?: string
  readonly value?: unknown
}

test('no regular expression takes more than linear time, except those with a reason', () => {
  const files = ['src', 'console'].flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .filter((name) => /\.tsx?$/.test(name))
      .map((name) => join(folder, name)),
  )
  const all = files.flatMap(expressionsIn)
  expect(all.length).toBeGreaterThan(250)
  const suspects = all.filter(({ source, flags }) => {
    try {
      return canBacktrack(source, flags)
    } catch {
      return true
    }
  })
  const excused = Object.entries(HARMLESS).flatMap(([file, list]) =>
    list.map(([source]) => `${file}: ${source}`),
  )
  expect(suspects.map(({ file, source }) => `${file}: ${source}`).sort()).toEqual(excused.sort())
})
