import type { ImportedItem } from './module-view.ts'
import { EXTISM_NAMESPACE } from './names.ts'

/** A kind of module that was made for another host than Extism. */
interface ForeignKind {
  readonly imports?: RegExp
  readonly exports?: RegExp
  /** What it is, and what to do. */
  readonly advice: string
}

const REWRITE = 'write it with an Extism PDK (wasm-serve new)'

/** The more specific kinds first. An import is written as its namespace, a space and its name. */
const FOREIGN_KINDS: readonly ForeignKind[] = [
  {
    imports: /^env proxy_/,
    exports: /^proxy_(?:abi_version|on_)/,
    advice: `a proxy-wasm filter, for proxies such as Envoy: ${REWRITE}`,
  },
  {
    imports: /^(?:wbg|__wbindgen\w*) | __wb(?:indgen|g)_/,
    exports: /^__wb(?:indgen|g)_/,
    advice: 'a module of wasm-bindgen, for JavaScript: build it with the Extism PDK (wasm-serve new rust)',
  },
  {
    imports: /^go(?:js)? /,
    advice:
      'a Go program for JavaScript (GOOS=js): build it with GOOS=wasip1 and the Extism PDK (wasm-serve new go)',
  },
  {
    imports: /^env opa_/,
    exports: /^opa_/,
    advice: `a policy of Open Policy Agent: ${REWRITE}`,
  },
  {
    imports: /^(?:env )?(?:emscripten_|_emscripten|invoke_[a-z]+$)|^a [A-Za-z_$]{1,2}$/,
    exports: /^_?emscripten_/,
    advice:
      'a module of Emscripten, for the JavaScript beside it: build it with -sSTANDALONE_WASM and the Extism PDK (wasm-serve new c)',
  },
  {
    imports: /^wasi:|^[^ ]*@\d/,
    exports: /^cabi_realloc$/,
    advice: 'a part of a WebAssembly component (WASI 0.2): build it for wasm32-wasip1 with an Extism PDK',
  },
  { imports: /^wasi_unstable /, advice: 'a program for WASI preview 0: build it for wasi_snapshot_preview1' },
  { imports: /^wasix_/, advice: 'a program for WASIX, of Wasmer: build it for wasm32-wasip1' },
  { imports: /^http_handler /, advice: `a handler of http-wasm: ${REWRITE}` },
  { imports: /^fastly_/, advice: `a program for Fastly Compute: ${REWRITE}` },
  {
    imports: /^env abort$/,
    exports: /^__(?:new|pin)$/,
    advice: 'AssemblyScript without the Extism PDK: use @extism/as-pdk (wasm-serve new assemblyscript)',
  },
]

/** A module, as far as its kind is known from names. */
interface NamedParts {
  readonly imports?: readonly ImportedItem[]
  /** Its exports. */
  readonly names: readonly string[]
}

/**
 * What a module is that was made for another host, and what to do, by the names of its imports and exports. Ask only about
 * modules that cannot be used: names alone are no reason to refuse one.
 *
 * @returns undefined if it is nothing known, or imports functions of Extism.
 */
export function foreignKind({ imports = [], names }: NamedParts): string | undefined {
  if (imports.some((each) => each.module === EXTISM_NAMESPACE)) return undefined
  const wanted = imports.map((each) => `${each.module} ${each.name}`)
  const found = FOREIGN_KINDS.find(
    (kind) =>
      wanted.some((each) => kind.imports?.test(each)) || names.some((each) => kind.exports?.test(each)),
  )
  return found?.advice
}
