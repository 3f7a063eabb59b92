import { basename } from 'node:path'
import { fileURLToPath } from 'node:url'
import { assemblyscript, c, cpp, go, quickjs, rust, type Toolchain, tinygo, wabt, zig } from './toolchains.ts'

/** An example: a folder with its source and the `build.sh` that builds it. */
export interface ExamplePlugin {
  readonly folder: string
  readonly language: string
  /** What `build.sh` makes, below the folder; it is committed unless it is in `target`. */
  readonly makes: string
  /** What stands between its source and Extism's functions. */
  readonly joinedBy: string
  readonly toolchain: Toolchain
}

const RUST = { language: 'Rust', joinedBy: 'Rust PDK 1.4.1', toolchain: rust }
const TINYGO = { language: 'TinyGo', joinedBy: 'Go PDK 1.1.3', toolchain: tinygo }
const GO = { language: 'Go', joinedBy: 'Go PDK 1.1.3', toolchain: go }
const ASSEMBLYSCRIPT = {
  language: 'AssemblyScript',
  joinedBy: 'AssemblyScript PDK 1.0.0',
  toolchain: assemblyscript,
}
const JAVASCRIPT = {
  language: 'JavaScript',
  joinedBy: 'QuickJS (rquickjs 0.14.0) in the Rust PDK 1.4.1',
  toolchain: quickjs,
}
/** Their PDKs are in no package registry. */
const OWN = 'declarations of its own'

/** All of them. */
export const plugins: readonly ExamplePlugin[] = [
  { folder: 'hello', makes: 'hello.wasm', ...RUST },
  { folder: 'hello-tinygo', makes: 'hello.wasm', ...TINYGO },
  { folder: 'hello-go', makes: 'target/hello.wasm', ...GO },
  { folder: 'hello-assemblyscript', makes: 'hello.wasm', ...ASSEMBLYSCRIPT },
  { folder: 'hello-js', makes: 'target/hello.wasm', ...JAVASCRIPT },
  { folder: 'hello-c', makes: 'hello.wasm', language: 'C', joinedBy: OWN, toolchain: c },
  { folder: 'hello-cpp', makes: 'hello.wasm', language: 'C++', joinedBy: OWN, toolchain: cpp },
  { folder: 'hello-zig', makes: 'hello.wasm', language: 'Zig', joinedBy: OWN, toolchain: zig },
  { folder: 'hello-wat', makes: 'hello.wasm', language: 'WAT', joinedBy: OWN, toolchain: wabt },
  { folder: 'count-vowels-rust', makes: 'count-vowels.wasm', ...RUST },
  { folder: 'count-vowels-tinygo', makes: 'count-vowels.wasm', ...TINYGO },
  { folder: 'count-vowels-go', makes: 'target/count-vowels.wasm', ...GO },
  { folder: 'http-rust', makes: 'http.wasm', ...RUST },
  { folder: 'http-go', makes: 'target/http.wasm', ...GO },
  { folder: 'http-assemblyscript', makes: 'http.wasm', ...ASSEMBLYSCRIPT },
  { folder: 'markdown-rust', makes: 'markdown.wasm', ...RUST },
  { folder: 'page-title-rust', makes: 'page-title.wasm', ...RUST },
  { folder: 'buggy-median-rust', makes: 'buggy-median.wasm', ...RUST },
  { folder: 'visits', makes: 'visits.wasm', ...RUST },
  { folder: 'streams-rust', makes: 'streams.wasm', ...RUST },
  { folder: 'streams-go', makes: 'target/streams.wasm', ...GO },
  { folder: 'streams-js', makes: 'target/streams.wasm', ...JAVASCRIPT },
  { folder: 'streams-assemblyscript', makes: 'streams.wasm', ...ASSEMBLYSCRIPT },
  { folder: 'socket-rust', makes: 'socket.wasm', ...RUST },
]

/** What runs scripts as plug-ins. It is no plug-in without one. */
export const scriptEngine: ExamplePlugin = {
  folder: 'script-engine',
  makes: 'engine.wasm.br',
  ...JAVASCRIPT,
}

/** What it does: the same for those that differ in their language only. */
export function taskOf({ makes }: ExamplePlugin): string {
  return basename(makes, '.wasm')
}

export function isCommitted({ makes }: ExamplePlugin): boolean {
  return !makes.startsWith('target/')
}

/** The path of the plug-in that a folder's `build.sh` makes. */
export function wasmPath({ folder, makes }: ExamplePlugin): string {
  return fileURLToPath(new URL(`${folder}/${makes}`, import.meta.url))
}
