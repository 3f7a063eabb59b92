import { describe, expect, test } from 'vitest'
import { readModule } from '../../../src/module/module.ts'
import { exportedFunctions, type ModuleView } from '../../../src/module/module-view.ts'
import { appendItems, renderExport, renderItems, withContents } from '../../../src/module/module-writer.ts'
import type { ReadOptions } from '../../../src/module/section-reader.ts'
import { F32, F64, I32, I64, V128 } from '../../../src/module/types.ts'
import { bytesOf, codeOf, codeSection, list, moduleOf, section } from '../../support/module-bytes.ts'

const read = (bytes: Uint8Array, options: ReadOptions = {}) => readModule(bytes, options, 'test')

const INVALID = 'WASM_SERVE_PLUGIN_INVALID'
const text = (name: string) => [name.length, ...Buffer.from(name)]
const END = 0x0b
const ZERO = [0x41, 0, END]

/** A module with something of each kind, imported and of its own. */
const ALL = moduleOf(
  section(0, bytesOf(text('first'), 1, 2, 3)),
  section(1, list([0x60, 2, I32, I64, 1, F32], [0x60, 0, 0], [0x60, 1, F64, 2, V128, 0x70])),
  section(
    2,
    list(
      [...text('m'), ...text('f'), 0, 0],
      [...text('m'), ...text('t'), 1, 0x70, 1, 2, 9],
      [...text('m'), ...text('mem'), 2, 3, 1, 2],
      [...text('m'), ...text('g'), 3, I64, 1],
      [...text('m'), ...text('e'), 4, 0, 1],
    ),
  ),
  section(3, list(1, 2)),
  section(4, list([0x6f, 0, 3], [0x70, 5, 1, 8])),
  section(5, list([0, 2], [5, 1, 0x80, 2])),
  section(13, list([0, 1])),
  section(6, list([I32, 0, 0x41, 7, END], [F64, 1, 0x44, 0, 0, 0, 0, 0, 0, 0, 0, END])),
  section(
    7,
    list(
      [...text('run'), 0, 1],
      [...text('table'), 1, 2],
      [...text('mem'), 2, 0],
      [...text('g'), 3, 0],
      [...text('e'), 4, 1],
    ),
  ),
  section(9, list([0, ...ZERO, 2, 0, 1], [1, 0, 1, 0], [5, 0x70, 1, 0xd2, 0, END], [3, 0, 0])),
  section(12, bytesOf(3)),
  codeSection(
    { code: 1 },
    {
      locals: [
        [2, I32],
        [1, F64],
      ],
      code: 0,
    },
  ),
  section(
    11,
    list(
      [0, 0x41, 0x80, 1, END, ...text('data')],
      [1, ...text('passive')],
      [0, 0x41, 0xe4, 0, END, ...text('low')],
    ),
  ),
  section(0, bytesOf(text('last'))),
)

describe('a module is what its sections say', () => {
  const view = read(ALL)

  test('imports, and exports with their indices', () => {
    expect(view.imports).toEqual(
      [
        ['f', 'function'],
        ['t', 'table'],
        ['mem', 'memory'],
        ['g', 'global'],
        ['e', 'tag'],
      ].map(([name, kind]) => ({ module: 'm', name, kind })),
    )
    expect(view.exports).toEqual([
      { name: 'run', kind: 'function', index: 1 },
      { name: 'table', kind: 'table', index: 2 },
      { name: 'mem', kind: 'memory', index: 0 },
      { name: 'g', kind: 'global', index: 0 },
      { name: 'e', kind: 'tag', index: 1 },
    ])
  })

  test('functions with their types, and where their code is', () => {
    expect([view.functions, view.tags]).toEqual([
      [0, 1, 2],
      [1, 1],
    ])
    expect([...(view.bodies?.locals ?? [])]).toEqual([0, 1 + 3])
    const [first = 0, second = 0] = view.bodies?.starts ?? []
    expect([...ALL.subarray(first, view.bodies?.ends[0])]).toEqual([0, 1, END])
    expect([...ALL.subarray(second, view.bodies?.ends[1])]).toEqual([2, 2, I32, 1, F64, 0, END])
    expect(exportedFunctions(view)).toEqual([{ name: 'run', signature: { params: [], results: [] } }])
    const others = exportedFunctions({
      ...view,
      exports: [0, 2, 9].map((index) => ({ name: `f${index}`, kind: 'function', index })),
    })
    expect(others.map(({ signature }) => signature)).toEqual([
      { params: ['i32', 'i64'], results: ['f32'] },
      { params: ['f64'], results: ['v128', 'funcref'] },
      { params: ['unknown'], results: [] },
    ])
  })

  test('memories and tables with their limits, and the types of their indices', () => {
    expect(view.memories).toEqual([
      { flags: 0, min: 2n, max: undefined },
      { flags: 5, min: 1n, max: 256n },
    ])
    expect(view.tables.map(({ type, value, ...limits }) => [[...type], [...value], limits])).toEqual([
      [[0x6f], [], { flags: 0, min: 3n, max: undefined }],
      [[0x70], [], { flags: 5, min: 1n, max: 8n }],
    ])
    expect(view.indexTypes).toEqual({ memories: [I32, I32, I64], tables: [I32, I32, I64] })
  })

  test('globals, the lowest data, and other sections', () => {
    expect(view.globals.map(({ type, isMutable }) => [type.name, isMutable])).toEqual([
      ['i32', false],
      ['f64', true],
    ])
    expect(view.lowestData).toBe(100)
    expect(view.customSections.map(({ name, content }) => [name, [...content]])).toEqual([
      ['first', [1, 2, 3]],
      ['last', []],
    ])
  })

  test('each counted once', () => {
    expect(view.figures).toMatchObject({
      ...{ types: 3, typeValues: 6, imports: 5, functions: 3, tables: 3, memories: 3, globals: 3, tags: 2 },
      ...{ exports: 5, elementSegments: 4, elements: 4, dataSegments: 3, customSections: 2, allLocals: 4 },
      ...{ locals: 4, signatureValues: 3, moduleBytes: ALL.length, nameBytes: 27 + 18 },
    })
  })

  test('without its code if that is not asked for', () => {
    const unread = read(ALL, { readsCode: false })
    expect([unread.bodies, unread.exports]).toEqual([undefined, view.exports])
  })
})

describe('where the data begin', () => {
  const lowestOf = (...data: readonly (readonly number[])[]) =>
    read(moduleOf(section(5, list([0, 1])), section(11, list(...data)))).lowestData
  const at = (...address: readonly number[]) => [0, ...address, END, ...text('d')]

  test.each([
    ['is the lowest address', [at(0x41, 0xc0, 0), at(0x41, 9), at(0x41, 0x11)], 9],
    ['is an address without a sign', [at(0x41, 0x7f)], 2 ** 32 - 1],
    ['is unknown if a global says it', [at(0x41, 9), at(0x23, 0)], 0],
    ['is unknown if it is computed', [at(0x41, 9, 0x41, 9, 0x6a)], 0],
    ['is unknown in a memory with a number', [[2, 0, 0x41, 9, END, ...text('d')]], 0],
    ['is nowhere if the program puts them there', [[1, ...text('d')]], Number.POSITIVE_INFINITY],
  ])('%s', (_, data, expected) => {
    expect(lowestOf(...data)).toBe(expected)
  })
})

const FUNCTION = section(1, list([0x60, 0, 0]))

/** From exn to noexn. */
const ABSTRACT_TYPES = [0x69, 0x6a, 0x6b, 0x6c, 0x6d, 0x6e, 0x6f, 0x70, 0x71, 0x72, 0x73, 0x74]

test.each<readonly [string, Uint8Array]>([
  ['an import of an unknown kind', moduleOf(section(2, list([...text('m'), ...text('n'), 5, 0])))],
  ['an export of an unknown kind', moduleOf(section(7, list([...text('n'), 5, 0])))],
  [
    'a function of a type that it does not have',
    moduleOf(FUNCTION, section(3, list(1)), codeSection({ code: [] })),
  ],
  ['a table of an unknown kind', moduleOf(section(4, list([0x40, 1, 0x70, 0, 1, ...ZERO])))],
  ['limits of an unknown kind', moduleOf(section(5, list([8, 1])))],
  ['a global of an unknown kind', moduleOf(section(6, list([I32, 2, ...ZERO])))],
  ['a tag of an unknown kind', moduleOf(FUNCTION, section(13, list([1, 0])))],
  ['elements of an unknown kind', moduleOf(section(9, list([9, 0, 0])))],
  ['elements that are no functions', moduleOf(section(9, list([1, 1, 0])))],
  ['data of an unknown kind', moduleOf(section(11, list([3, ...ZERO, 0])))],
  ['a constant that is computed otherwise', moduleOf(section(6, list([I32, 0, 0x41, 0, 0x28, 2, 0, END])))],
  ['more functions than code', moduleOf(FUNCTION, section(3, list(0, 0)), codeSection({ code: [] }))],
  ['functions, but no code', moduleOf(FUNCTION, section(3, list(0)))],
  ['code, but no functions', moduleOf(codeSection({ code: [] }))],
  ['a section that is longer than its content', moduleOf(section(5, bytesOf(1, 0, 1, 0)))],
  ['a section that is shorter than its content', moduleOf(section(5, bytesOf(2, 0, 1)))],
  ['a section that nobody has', moduleOf(section(14, list()))],
  ['a type of an unknown form', moduleOf(section(1, list([0x61, 0, 0])))],
])('a module with %s is refused', (_, bytes) => {
  expect(codeOf(() => read(bytes, { allowGc: true }))).toBe(INVALID)
})

test.each<readonly [string, Uint8Array]>([
  ['a table with a value', moduleOf(section(4, list([0x40, 0, 0x70, 0, 1, 0xd0, 0x70, END])))],
  [
    'elements of another table',
    moduleOf(section(4, list([0x70, 0, 1], [0x70, 0, 1])), section(9, list([2, 1, ...ZERO, 0, 0]))),
  ],
  [
    'elements of a type in another table',
    moduleOf(section(4, list([0x70, 0, 1])), section(9, list([6, 0, ...ZERO, 0x70, 1, 0xd0, 0x70, END]))),
  ],
  [
    'a function of every kind of reference',
    moduleOf(section(1, list([0x60, ABSTRACT_TYPES.length, ...ABSTRACT_TYPES, 0]))),
  ],
  ['elements that are declared', moduleOf(section(9, list([7, 0x70, 1, 0xd0, 0x70, END])))],
  ['packed fields', moduleOf(section(1, list([0x5f, 2, 0x78, 0, 0x77, 1])))],
  [
    'a group of types with supertypes',
    moduleOf(section(1, list([0x4e, 2, 0x50, 0, 0x5f, 0, 0x4f, 1, 0, 0x5f, 1, I32, 0]))),
  ],
  [
    'a start function',
    moduleOf(FUNCTION, section(3, list(0)), section(8, bytesOf(0)), codeSection({ code: [] })),
  ],
])('a module with %s is read to its end', (_, bytes) => {
  expect(codeOf(() => read(bytes, { allowGc: true }))).toBe('accepted')
})

describe('a module with other contents', () => {
  const idsOf = (view: ModuleView) => view.sections.map(({ id }) => id)
  const GLOBAL = bytesOf(I32, 0, ZERO)

  test('has them in place of its own, and in the order of sections', () => {
    const view = read(ALL)
    const globals = appendItems(view, 6, [GLOBAL, GLOBAL])
    const made = read(
      withContents(
        view,
        new Map([
          [6, globals],
          [8, bytesOf(1)],
        ]),
      ),
    )
    expect(idsOf(made)).toEqual([0, 1, 2, 3, 4, 5, 13, 6, 7, 8, 9, 12, 10, 11, 0])
    expect(made.globals.map(({ type }) => type.name)).toEqual(['i32', 'f64', 'i32', 'i32'])
    expect({ ...made, ...CHANGED }).toEqual({ ...view, ...CHANGED })
  })

  const CHANGED = { bytes: 0, sections: 0, globals: 0, figures: 0, bodies: 0 }

  test('has those that it did not have', () => {
    const view = read(moduleOf(section(0, bytesOf(text('a'))), section(5, list([0, 1]))))
    const exports = appendItems(view, 7, [renderExport('memory', 'memory', 0)])
    const types = renderItems([bytesOf(0x60, 0, 0)])
    const made = read(
      withContents(
        view,
        new Map([
          [7, exports],
          [1, types],
        ]),
      ),
    )
    expect(idsOf(made)).toEqual([0, 1, 5, 7])
    expect(made.exports).toEqual([{ name: 'memory', kind: 'memory', index: 0 }])
  })

  test('adds to what was added before', () => {
    const view = read(ALL)
    const once = new Map([[6, appendItems(view, 6, [GLOBAL])]])
    const twice = new Map([[6, appendItems(view, 6, [GLOBAL], once)]])
    expect(read(withContents(view, twice)).globals).toHaveLength(4)
  })

  test('is itself if there are none', () => {
    expect(withContents(read(ALL), new Map())).toBe(ALL)
  })

  test('has no branch hints of code that it has no longer', () => {
    const hints = section(0, bytesOf(text('metadata.code.branch_hint'), list()))
    const bytes = moduleOf(FUNCTION, section(3, list(0)), hints, codeSection({ code: [] }))
    const view = read(bytes)
    expect(idsOf(view)).toEqual([1, 3, 0x100, 10])
    const kept = withContents(view, new Map([[5, list([0, 1])]]))
    expect(idsOf(read(kept))).toEqual([1, 3, 0x100, 5, 10])
    const code = bytesOf(1, 3, 0, 1, END)
    expect(idsOf(read(withContents(view, new Map([[10, code]]))))).toEqual([1, 3, 10])
    const both = new Map([
      [10, code],
      [0x100, list()],
    ])
    expect(idsOf(read(withContents(view, both)))).toEqual([1, 3, 0x100, 10])
  })
})
