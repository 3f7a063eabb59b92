import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import fc from 'fast-check'
import { open } from 'lmdb'
import { describe, expect, onTestFinished, test } from 'vitest'
import { COMMANDS, chooseCommand } from '../../../src/cli/cli.ts'
import type { Host } from '../../../src/cli/command.ts'
import { completionWords } from '../../../src/cli/completion/completion.ts'
import {
  parseExport,
  renderEntry,
  renderFirstLine,
  renderLastLine,
} from '../../../src/cli/store/export-format.ts'
import { STORE_FLAGS, storeCommand } from '../../../src/cli/store/store.ts'
import { openLmdbStore } from '../../../src/guest/store/lmdb.ts'
import type { StoreEntry } from '../../../src/guest/store/store.ts'
import { Secrets } from '../../../src/observe/log/secrets.ts'
import { newFolder } from '../../support/stores.ts'

interface Ended {
  readonly out: string
  readonly error: unknown
}

/** Runs the command in this process, until it ends or throws. */
async function run(
  words: readonly string[],
  { input = '', environment = {} }: { input?: string | Uint8Array; environment?: Host['environment'] } = {},
): Promise<Ended> {
  let out = ''
  const host: Host = {
    environment,
    out: {
      write(text) {
        out += text
      },
      colours: false,
    },
    isOutTerminal: false,
    writeBytes: () => undefined,
    writeError: () => undefined,
    readInput: async () => Buffer.from(input),
    readChunks: () => Readable.from([]),
    sendBytes: async () => true,
    readLines: () => Readable.from([]),
    logTerminal: undefined,
    secrets: new Secrets(),
    commands: COMMANDS,
    program: ['node'],
    logLines: undefined,
    signals: { holdReload: () => () => false, atExit: () => undefined, endWith: () => undefined },
    keyboard: undefined,
  }
  const error: unknown = await storeCommand.run(words, host).then(
    () => undefined,
    (error) => error,
  )
  return { out, error }
}

const failed = (code: string) => expect.objectContaining({ code: `WASM_SERVE_${code}` })
const bytes = (text: string) => new Uint8Array(Buffer.from(text))

/** A folder with a store that has these entries. */
async function storeOf(entries: readonly StoreEntry[]): Promise<string> {
  const folder = newFolder()
  const store = await openLmdbStore({ folder })
  await store.restore(entries, false)
  await store.close()
  return folder
}

async function entriesOf(folder: string): Promise<unknown[]> {
  const store = await openLmdbStore({ folder, mustExist: true })
  const entries: unknown[] = []
  for await (const entry of store.entries()) entries.push(entry)
  await store.close()
  return entries
}

const LATER = Date.now() + 3_600_000
const ENTRIES: readonly StoreEntry[] = [
  { namespace: 'a', key: 'Bob', value: bytes('1') },
  { namespace: 'a', key: '\u{1F600}', value: new Uint8Array([0, 255, 10, 13]), expiresAt: LATER },
  { namespace: 'b:c', key: 'empty', value: bytes('') },
]

/** The lines of an export of {@link ENTRIES}, as documented. */
const LINES = [
  '{"format":"wasm-serve-store","version":1}',
  '{"namespace":"a","key":"Qm9i","value":"MQ=="}',
  `{"namespace":"a","key":"8J+YgA==","value":"AP8KDQ==","expiresAt":${LATER}}`,
  '{"namespace":"b:c","key":"ZW1wdHk=","value":""}',
  '{"entries":3}',
]
const EXPORT = `${LINES.join('\n')}\n`

function newFile(content?: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-export.'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const file = join(folder, 'state.jsonl')
  if (content !== undefined) writeFileSync(file, content)
  return file
}

/** Writes into a store what no store would. */
async function damage(folder: string, key: Uint8Array, value: Uint8Array): Promise<void> {
  const environment = open<Buffer, Buffer>({ path: folder, noSubdir: false, overlappingSync: false })
  const values = environment.openDB({
    name: 'values',
    useVersions: true,
    keyEncoding: 'binary',
    encoding: 'binary',
  })
  await values.put(Buffer.from(key), Buffer.from(value), 1)
  await environment.close()
}

describe('store export', () => {
  test('prints the lines of the documented format', async () => {
    const { out, error } = await run(['export', `lmdb:${await storeOf(ENTRIES)}`])
    expect({ out, error }).toEqual({ out: EXPORT, error: undefined })
  })

  test('writes a file as a whole, in the place of one that is there', async () => {
    const file = newFile('old')
    const { out, error } = await run(['export', `lmdb:${await storeOf(ENTRIES)}`, '--file', file])
    expect({ out, error }).toEqual({ out: `exported 3 entries to ${file}\n`, error: undefined })
    expect(readFileSync(file, 'utf8')).toBe(EXPORT)
    expect(readdirSync(join(file, '..'))).toEqual(['state.jsonl'])
  })

  test('leaves a file as it is if it fails', async () => {
    const file = newFile('old')
    const { error } = await run(['export', `lmdb:${newFolder()}`, `--file=${file}`])
    expect(error).toEqual(failed('STORE_INVALID'))
    expect([readFileSync(file, 'utf8'), readdirSync(join(file, '..'))]).toEqual(['old', ['state.jsonl']])
  })

  test('says that a file cannot be written', async () => {
    const file = join(newFile(), 'no', 'such', 'folder')
    const { error } = await run(['export', `lmdb:${await storeOf([])}`, '--file', file])
    expect(error).toEqual(failed('OUTPUT_UNWRITABLE'))
  })

  test('takes the store that the variable names', async () => {
    const environment = { WASM_SERVE_STORE: `lmdb:${await storeOf(ENTRIES)}` }
    expect((await run(['export'], { environment })).out).toBe(EXPORT)
  })

  test('has what can be read of a store with faults, and says what is wrong', async () => {
    const folder = await storeOf(ENTRIES)
    await damage(folder, bytes('no colon'), new Uint8Array(8))
    const { out, error } = await run(['export', `lmdb:${folder}`])
    expect([out, error]).toEqual([EXPORT, failed('STORE_DAMAGED')])
  })
})

describe('store import', () => {
  test.each(['standard input', 'a file'])('fills a store from %s', async (from) => {
    const folder = newFolder()
    const words = ['import', `lmdb:${folder}`, ...(from === 'a file' ? ['--file', newFile(EXPORT)] : [])]
    const { out, error } = await run(words, { input: EXPORT })
    expect({ out, error }).toEqual({ out: `imported 3 entries into lmdb:${folder}\n`, error: undefined })
    expect(await entriesOf(folder)).toEqual(ENTRIES)
  })

  test('refuses a store that is not empty, unless it may replace what is there', async () => {
    const folder = await storeOf([{ namespace: 'z', key: 'old', value: bytes('x') }])
    const refused = await run(['import', `lmdb:${folder}`], { input: EXPORT })
    expect(refused.error).toEqual(failed('STORE_NOT_EMPTY'))
    expect(await entriesOf(folder)).toHaveLength(1)
    expect((await run(['import', '--replace', `lmdb:${folder}`], { input: EXPORT })).error).toBe(undefined)
    expect(await entriesOf(folder)).toEqual(ENTRIES)
  })

  test('leaves out what has expired meanwhile, and says so', async () => {
    const folder = newFolder()
    const lines = [LINES[0], '{"namespace":"a","key":"Qm9i","value":"MQ==","expiresAt":1}', '{"entries":1}']
    const { out } = await run(['import', `lmdb:${folder}`], { input: lines.join('\n') })
    expect(out).toBe(`imported 0 entries into lmdb:${folder} (1 had expired)\n`)
  })

  const [first, entry] = LINES
  test.each<[what: string, line: number, lines: readonly (string | undefined)[]]>([
    ['nothing', 1, []],
    ['text', 1, ['hello']],
    ['another format', 1, ['{"format":"other","version":1}']],
    ['a version to come', 1, ['{"format":"wasm-serve-store","version":2}']],
    ['no first line', 1, [entry, '{"entries":1}']],
    ['no last line', 3, [first, entry]],
    ['half a line', 3, [first, entry, '{"namespace":"a"']],
    ['entries that are missing', 3, [first, entry, '{"entries":2}']],
    ['more after its end', 4, [first, entry, '{"entries":1}', entry]],
    ['an empty line', 2, [first, '', '{"entries":0}']],
    ['a list', 2, [first, '[]']],
    ['no namespace', 2, [first, '{"key":"Qm9i","value":""}']],
    ['an empty namespace', 2, [first, '{"namespace":"","key":"Qm9i","value":""}']],
    ['an empty key', 2, [first, '{"namespace":"a","key":"","value":""}']],
    ['a key that is no UTF-8', 2, [first, '{"namespace":"a","key":"/w==","value":""}']],
    ['a key that is no base64', 2, [first, '{"namespace":"a","key":"Qm9?","value":""}']],
    ['a key that is too long', 2, [first, `{"namespace":"a","key":"${'QUFB'.repeat(171)}","value":""}`]],
    ['a value that is no text', 2, [first, '{"namespace":"a","key":"Qm9i","value":1}']],
    [
      'a value that is too long',
      2,
      [first, `{"namespace":"a","key":"Qm9i","value":"${'AAAA'.repeat(349_526)}"}`],
    ],
    ['a line without an end', 2, [first, 'x'.repeat(5_000_000)]],
    ['a time that is none', 2, [first, '{"namespace":"a","key":"Qm9i","value":"","expiresAt":"soon"}']],
    [
      'a time that is too late',
      2,
      [first, '{"namespace":"a","key":"Qm9i","value":"","expiresAt":9007199254740991}'],
    ],
    ['a field that there is not', 2, [first, '{"namespace":"a","key":"Qm9i","value":"","ttl":5}']],
    ['a prototype', 2, [first, '{"namespace":"a","key":"Qm9i","value":"","__proto__":{}}']],
  ])('refuses %s with the number of the line, and makes no store', async (_what, line, lines) => {
    const folder = newFolder()
    const { error } = await run(['import', `lmdb:${folder}`, '--replace'], {
      input: lines.map((each) => `${each}\n`).join(''),
    })
    expect(error).toEqual(failed('STORE_EXPORT_INVALID'))
    expect(error).toMatchObject({ message: expect.stringContaining(`standard input, line ${line}:`) })
    expect(() => readdirSync(folder)).toThrow()
  })

  test('refuses bytes that are no UTF-8', async () => {
    const { error } = await run(['import', `lmdb:${newFolder()}`], { input: Uint8Array.of(0xff, 0x0a) })
    expect(error).toEqual(failed('STORE_EXPORT_INVALID'))
  })

  test.each(['missing.jsonl', '.'])('says that %s cannot be read', async (name) => {
    const file = join(newFile(), '..', name)
    const { error } = await run(['import', `lmdb:${newFolder()}`, '--file', file])
    expect(error).toEqual(failed('INPUT_UNREADABLE'))
  })

  test('gives back what was exported, however the bytes are cut', () => {
    const entry = fc.record(
      {
        namespace: fc.string({ minLength: 1, maxLength: 20, unit: 'grapheme' }),
        key: fc.string({ minLength: 1, maxLength: 20, unit: 'grapheme' }),
        value: fc.uint8Array({ maxLength: 50 }),
        expiresAt: fc.integer({ min: 1, max: LATER }),
      },
      { requiredKeys: ['namespace', 'key', 'value'], noNullPrototype: true },
    )
    fc.assert(
      fc.property(fc.array(entry, { maxLength: 10 }), fc.integer({ min: 1, max: 40 }), (entries, size) => {
        const text = [renderFirstLine(), ...entries.map(renderEntry), renderLastLine(entries.length)].join('')
        const whole = Buffer.from(text)
        const chunks = Array.from({ length: Math.ceil(whole.length / size) }, (_, i) =>
          whole.subarray(i * size, (i + 1) * size),
        )
        const parsed = [...parseExport('test', chunks)]
        expect(parsed.map((each) => ({ ...each, value: [...each.value] }))).toEqual(
          entries.map((each) => ({ ...each, value: [...each.value] })),
        )
      }),
    )
  })
})

describe('store check', () => {
  test('counts what is in each namespace', async () => {
    const { out, error } = await run(['check', `lmdb:${await storeOf(ENTRIES)}`])
    expect(error).toBe(undefined)
    expect(out.split('\n').map((line) => line.trim().split(/ {2,}/))).toEqual([
      ['NAMESPACE', 'ENTRIES', 'EXPIRING', 'KEY BYTES', 'VALUE BYTES'],
      ['a', '2', '1', '7', '5'],
      ['b:c', '1', '0', '5', '0'],
      ['all', '3', '1', '12', '5'],
      [''],
    ])
  })

  test('prints the same as JSON', async () => {
    const folder = await storeOf(ENTRIES)
    expect(JSON.parse((await run(['check', '--json', `lmdb:${folder}`])).out)).toEqual({
      store: `lmdb:${folder}`,
      namespaces: [
        { namespace: 'a', entries: 2, expiring: 1, keyBytes: 7, valueBytes: 5 },
        { namespace: 'b:c', entries: 1, expiring: 0, keyBytes: 5, valueBytes: 0 },
      ],
      faults: [],
    })
  })

  test('makes no store where there is none', async () => {
    const folder = newFolder()
    expect((await run(['check', `lmdb:${folder}`])).error).toEqual(failed('STORE_INVALID'))
    mkdirSync(folder, { recursive: true })
    expect((await run(['check', `lmdb:${folder}`])).error).toEqual(failed('STORE_INVALID'))
    expect(readdirSync(folder)).toEqual([])
  })

  const time = (ms: number) => {
    const stored = Buffer.alloc(9)
    stored.writeDoubleBE(ms)
    return stored
  }
  test.each([
    ['a key without a namespace', bytes('no colon'), time(0)],
    ['a namespace that no store writes', bytes('a b:key'), time(0)],
    ['an empty key', bytes('a:'), time(0)],
    ['a key that is no UTF-8', Buffer.concat([bytes('a:'), Buffer.of(0xff)]), time(0)],
    ['a value without its time', bytes('a:key'), new Uint8Array(3)],
    ['a time before 1970', bytes('a:key'), time(-1)],
    ['a time that is no number', bytes('a:key'), time(Number.NaN)],
    ['an expiry that nothing would remove', bytes('a:key'), time(LATER)],
  ])('says that there is %s, and counts the rest', async (_what, key, value) => {
    const folder = await storeOf(ENTRIES)
    await damage(folder, key, value)
    const { out, error } = await run(['check', '--json', `lmdb:${folder}`])
    expect(error).toEqual(failed('STORE_DAMAGED'))
    expect(JSON.parse(out)).toMatchObject({ faults: [expect.any(String)], namespaces: { length: 2 } })
  })

  test('reads all of a file, not only its top', async () => {
    const values = Array.from({ length: 1_500 }, (_, i) => ({
      namespace: 'n',
      key: `key ${String(i).padStart(5, '0')}`,
      value: new Uint8Array(1_500).fill(i),
    }))
    const folder = await storeOf(values)
    const file = join(folder, 'data.mdb')
    const content = readFileSync(file)
    // The page of the last keys: the header that is read first says nothing of it.
    const at = content.lastIndexOf('n:key 01499')
    content.fill(0xee, at - (at % 4_096), at - (at % 4_096) + 24)
    writeFileSync(file, content)
    expect((await run(['check', `lmdb:${folder}`])).error).toEqual(failed('STORE_INVALID'))
  })
})

describe('store', () => {
  test.each([
    [[]],
    [['check']],
    [['chek', 'lmdb:./x']],
    [['toString', 'lmdb:./x']],
    [['check', 'memory:']],
    [['check', 'lmdb:./x', 'lmdb:./y']],
    [['check', 'lmdb:./x', '--port', '0']],
    [['check', 'lmdb:./x', '--nope']],
    [['check', 'lmdb:./x', '--replace']],
    [['check', 'lmdb:./x', '--file', 'y']],
    [['export', 'lmdb:./x', '--json']],
    [['import', 'lmdb:./x', '--file']],
  ])('refuses the words %j', async (words) => {
    expect((await run(words)).error).toEqual(failed('USAGE_INVALID'))
  })

  test.each([
    'check',
    'export',
    'import',
  ])('%s says that a store is none, and keeps its secrets', async (word) => {
    for (const url of ['lmdb:', 'mysql://user:secret@host', 'redis://user:secret@host:port', 'state']) {
      const { error } = await run([word, url], { input: EXPORT })
      expect(error).toEqual(failed('STORE_INVALID'))
      expect(String(error)).not.toContain('secret')
    }
  })

  test('is found as a command, has a page that fits a screen, and is completed', async () => {
    const { command, argv } = await chooseCommand(['store', 'check', 'lmdb:x'])
    expect([command, argv]).toEqual([storeCommand, ['check', 'lmdb:x']])
    const lines = (await run(['--help'])).out.trimEnd().split('\n')
    expect(lines.length).toBeLessThan(24)
    expect(lines.filter((line) => line.length > 80)).toEqual([])
    const words = completionWords(Object.keys(COMMANDS))
    expect(words.storeActions).toEqual(['check', 'export', 'import', 'rename'])
    expect(words.flags).toEqual(expect.arrayContaining(Object.keys(STORE_FLAGS).map((name) => `--${name}`)))
    expect(words.paths).toContain('--file')
  })
})

test('rename moves a namespace, and refuses what would mix or lose keys', async () => {
  const folder = newFolder()
  const store = await openLmdbStore({ folder })
  await store.set('hello.wasm', 'k', Buffer.from('v'))
  await store.close()
  const environment = { WASM_SERVE_STORE: `lmdb:${folder}` }
  const rename = (...words: string[]) => run(['rename', ...words], { environment })
  const refused = { error: { code: 'WASM_SERVE_NAMESPACE_NOT_RENAMED' } }
  expect(await rename('hello.wasm', 'a/b c:d')).toEqual({
    out: 'moved 1 entries from hello.wasm to a/b c:d\n',
    error: undefined,
  })
  expect(await rename('hello.wasm', 'hello')).toMatchObject(refused) // it has no keys
  const again = await openLmdbStore({ folder })
  await again.set('hello.wasm', 'k', Buffer.from('other'))
  await again.close()
  expect(await rename('hello.wasm', 'a/b c:d')).toMatchObject(refused)
  expect(await rename('hello', 'a/b c:d', '--replace')).toMatchObject(refused) // it has no keys
  expect((await run(['check', '--json'], { environment })).out).toMatch(/"a\/b c:d"[\s\S]*"hello\.wasm"/)
  expect((await run(['rename', 'a/b c:d', 'hello', `lmdb:${folder}`])).error).toBe(undefined)
  expect(await rename('hello.wasm', 'hello', '--replace')).toMatchObject({
    out: 'moved 1 entries from hello.wasm to hello\n',
  })
  const last = await openLmdbStore({ folder })
  expect(Buffer.from((await last.get('hello', 'k')) ?? []).toString()).toBe('other')
  await last.close()
})

test.each([
  [['rename']],
  [['rename', 'one']],
  [['rename', 'one', 'one']],
  [['rename', 'one', '']],
])('store %j is refused with what is missing', async (words) => {
  const folder = newFolder()
  await (await openLmdbStore({ folder })).close()
  const environment = { WASM_SERVE_STORE: `lmdb:${folder}` }
  const { error } = await run(words, { environment })
  expect(error).toMatchObject({ code: expect.stringMatching(/^WASM_SERVE_(USAGE|KV_ARGUMENT_INVALID)/) })
})
