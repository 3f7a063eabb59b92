import { describe, expect, test } from 'vitest'
import {
  callableExports,
  chooseExport,
  initialisersOf,
  isCommand,
  isInitialiser,
  isOnlyProgram,
  problemWithExport,
} from '../../../src/module/entry-points.ts'
import { foreignKind } from '../../../src/module/foreign.ts'
import type { ImportedItem } from '../../../src/module/module-view.ts'

const functionOf = (name: string, results: readonly string[] = ['i32'], params: readonly string[] = []) => ({
  name,
  signature: { params, results },
})
const pluginOf = (...functions: readonly ReturnType<typeof functionOf>[]) => ({ name: 'test', functions })
const imported = (text: string): ImportedItem => {
  const space = text.lastIndexOf(' ')
  return { module: text.slice(0, space), name: text.slice(space + 1), kind: 'function' }
}

test.each<readonly [readonly string[], boolean, readonly string[]]>([
  [[], false, []],
  [['_initialize', '__wasm_call_ctors', '_start'], false, ['_initialize']],
  [['_initialize', 'hs_init', '_start'], true, ['_initialize', 'hs_init']],
  [['hs_init', '__wasm_call_ctors'], false, ['hs_init']],
  [['__wasm_call_ctors', '_start'], false, ['__wasm_call_ctors']],
  [['_start'], false, ['_start']],
  [['_start'], true, []], // a command of WASI
])('a module that exports %j, and imports WASI (%s), is initialized by %j', (exported, importsWasi, expected) => {
  expect(initialisersOf(new Set(exported), importsWasi)).toEqual(expected)
  for (const name of expected) expect(isInitialiser(name)).toBe(true)
})

test('other names initialize nothing', () => {
  for (const name of ['', '_init', '_Start', 'run']) expect(isInitialiser(name)).toBe(false)
})

test.each([
  [['_start'], true],
  [['_start', '_initialize'], false],
  [['run'], false],
])('a linked module with %j is a command: %s', (exported, expected) => {
  expect(isCommand(new Set(exported))).toBe(expected)
})

describe('the functions that can be called', () => {
  test.each([
    [
      'those that return a code or nothing',
      [functionOf('a'), functionOf('b', []), functionOf('c', ['i64'])],
      ['a', 'b'],
    ],
    [
      'else others',
      [functionOf('c', ['i64']), functionOf('d', ['i32', 'i32']), functionOf('_start', [])],
      ['c', 'd'],
    ],
    ['else the program', [functionOf('_start', []), functionOf('e', [], ['i32'])], ['_start']],
    [
      'none with parameters, or with results that are no numbers',
      [functionOf('e', [], ['i32']), functionOf('f', ['externref'])],
      [],
    ],
  ])('are %s', (_, functions, expected) => {
    expect(callableExports({ functions })).toEqual(expected)
    expect(callableExports({ functions })).toBe(callableExports({ functions }))
    expect(isOnlyProgram({ functions })).toBe(expected[0] === '_start')
  })

  test.each(
    `__data_end __wasm_call_ctors _initialize hs_init hs_exit asyncify_start_unwind emscripten_stack_init stackSave
    stackAlloc stackRestore malloc calloc realloc free NimMain go_scheduler resume`.split(/\s+/),
  )('are not %s, which a toolchain adds', (name) => {
    expect(problemWithExport(functionOf(name))).toBeTypeOf('string')
    expect(callableExports({ functions: [functionOf(name), functionOf('run')] })).toEqual(['run'])
  })

  test.each(['mallocate', 'my_free', 'initialize', 'stackSaved', 'resumed'])('may be %s', (name) => {
    expect(problemWithExport(functionOf(name))).toBeUndefined()
  })
})

describe('the function of a route', () => {
  const UNKNOWN = expect.objectContaining({ code: 'WASM_SERVE_FUNCTION_UNKNOWN' })
  const FOREIGN = expect.objectContaining({ code: 'WASM_SERVE_PLUGIN_FOREIGN' })
  const several = pluginOf(
    functionOf('run'),
    functionOf('stop'),
    functionOf('malloc'),
    functionOf('add', [], ['i32']),
  )

  test('is the only one, or the one that is named, even if a toolchain may have added it', () => {
    expect(chooseExport(pluginOf(functionOf('run'), functionOf('malloc')), undefined)).toBe('run')
    expect(chooseExport(several, 'stop')).toBe('stop')
    expect(chooseExport(several, 'malloc')).toBe('malloc')
  })

  test.each([
    ['several, and none is named', several, undefined, /run, stop/],
    ['another name', several, 'rum', /did you mean.*run/i],
    ['one that takes parameters', several, 'add', /\(i32\) -> \(\)/],
    ['none that can be called', pluginOf(functionOf('add', [], ['i32'])), undefined, /add \(i32\) -> \(\)/],
    [
      'none that can be called, and a name',
      pluginOf(functionOf('add', [], ['i32'])),
      'run',
      /add \(i32\) -> \(\)/,
    ],
    ['none at all', pluginOf(), undefined, /no functions at all/],
  ])('is unknown if there are %s', (_, plugin, name, message) => {
    expect(() => chooseExport(plugin, name)).toThrow(UNKNOWN)
    expect(() => chooseExport(plugin, name)).toThrow(message)
  })

  test('is asked for with a dozen names at most', () => {
    const many = pluginOf(...Array.from({ length: 14 }, (_, place) => functionOf(`f${place}`)))
    expect(() => chooseExport(many, undefined)).toThrow(/f10, f11 and 2 more/)
    const dozen = pluginOf(...many.functions.slice(0, 12))
    expect(() => chooseExport(dozen, undefined)).toThrow(/f10, f11(?! and)/)
  })

  test('is none of a module for another host', () => {
    const plugin = {
      ...pluginOf(functionOf('proxy_on_start', [], ['i32'])),
      imports: [imported('env proxy_log')],
    }
    expect(() => chooseExport(plugin, undefined)).toThrow(FOREIGN)
    expect(() => chooseExport(plugin, 'run')).toThrow(FOREIGN)
    expect(() => chooseExport(plugin, 'proxy_on_start')).toThrow(FOREIGN)
  })
})

describe('a module that was made for another host is known', () => {
  test.each([
    ['env proxy_log', /proxy-wasm/],
    ['wbg __wbg_log_1', /wasm-bindgen/],
    ['__wbindgen_placeholder__ f', /wasm-bindgen/],
    ['./other_bg.js __wbg_alert_1', /wasm-bindgen/],
    ['./other_bg.js __wbindgen_throw', /wasm-bindgen/],
    ['go runtime.wasmExit', /GOOS=js/],
    ['gojs runtime.wasmExit', /GOOS=js/],
    ['env opa_abort', /Open Policy Agent/],
    ['env emscripten_resize_heap', /Emscripten/],
    ['env _emscripten_memcpy_js', /Emscripten/],
    ['env invoke_vii', /Emscripten/],
    ['a b', /Emscripten/],
    ['wasi:cli/environment@0.2.0 get-environment', /component/],
    ['my:pkg/api@1.0.0 f', /component/],
    ['wasi_unstable fd_write', /preview 0/],
    ['wasix_32v1 fd_dup', /WASIX/],
    ['http_handler next', /http-wasm/],
    ['fastly_http_req new', /Fastly/],
    ['env abort', /AssemblyScript/],
  ])('by its import %s', (text, advice) => {
    expect(foreignKind({ imports: [imported('other f'), imported(text)], names: [] })).toMatch(advice)
    const withExtism = [imported('extism:host/env alloc'), imported(text)]
    expect(foreignKind({ imports: withExtism, names: [] })).toBeUndefined()
  })

  test.each([
    ['proxy_abi_version_0_2_0', /proxy-wasm/],
    ['proxy_on_request_headers', /proxy-wasm/],
    ['__wbindgen_malloc', /wasm-bindgen/],
    ['__wbg_thing_free', /wasm-bindgen/],
    ['opa_eval', /Open Policy Agent/],
    ['emscripten_stack_get_end', /Emscripten/],
    ['_emscripten_stack_restore', /Emscripten/],
    ['cabi_realloc', /component/],
    ['__new', /AssemblyScript/],
    ['__pin', /AssemblyScript/],
  ])('by its export %s', (name, advice) => {
    expect(foreignKind({ names: ['memory', name] })).toMatch(advice)
  })

  test.each([
    ['env log', ['run']],
    ['env aborted', ['__newer']],
    ['wasi_snapshot_preview1 fd_write', ['_start']],
    ['ab cd', ['proxy']],
    ['a bcd', ['cabi_realloc_2']],
    ['golang f', ['my_opa_eval']],
  ])('not by %s and %j', (text, names) => {
    expect(foreignKind({ imports: [imported(text)], names })).toBeUndefined()
  })
})
