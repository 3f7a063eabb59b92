import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { LANGUAGES } from '../src/cli/new/languages.ts'

/** What turns sources of one language into plug-ins. */
export interface Toolchain {
  /** Display name. */
  readonly name: string
  /** One-line installation instructions. */
  readonly get: string
  /** Shell commands, run in `plugins`: they fail where something is missing, and print what the bytes depend on. */
  readonly probe: string
  /** What the probe printed where the committed plug-ins were built. Anything else may build other bytes. */
  readonly pinned: string
}

/**
 * Looks for a toolchain. Rust's target is added where it is missing, as the plug-ins' `build.sh` do.
 *
 * @returns What its bytes depend on; undefined if it, or a part of it, is missing.
 */
export async function findToolchain({ probe }: Toolchain): Promise<string | undefined> {
  try {
    const { stdout } = await run('bash', ['-euo', 'pipefail', '-c', probe], { cwd: FOLDER })
    return stdout.trim().replaceAll('\n', ', ')
  } catch {
    return undefined // the probe's exit code is its answer
  }
}

const run = promisify(execFile)

const FOLDER = fileURLToPath(new URL('.', import.meta.url))

const hasTarget = (target: string) =>
  `rustc --print target-libdir --target ${target} | xargs test -d || rustup target add ${target}`

const wasiClang = (compiler: string, language: 'c' | 'c++', header: string) => `
  echo '#include <${header}>' | ${compiler} --target=wasm32-wasi -fsyntax-only -x${language} -
  test -e "$(${compiler} --target=wasm32-wasi -print-libgcc-file-name)"
  ${compiler} --version | sed -n 's/.*clang version /clang /p'`

const RUST_VERSION = `rustc --version | sed 's/rustc \\([^ ]*\\).*/Rust \\1/'`

/** clang and TinyGo run it; clang does without it too. */
const WASM_OPT = `wasm-opt --version | sed 's/ (.*//; s/ version//'`

export const rust: Toolchain = {
  ...LANGUAGES.rust.toolchain,
  // The sources of Rust's library, if they are there, change the paths in the panic messages.
  probe: `cargo --version > /dev/null
    ${hasTarget('wasm32-unknown-unknown')}
    ${RUST_VERSION}
    if [ -d "$(rustc --print sysroot)/lib/rustlib/src/rust" ]; then echo rust-src; fi`,
  pinned: 'Rust 1.95.0',
}

export const go: Toolchain = {
  ...LANGUAGES.go.toolchain,
  probe: 'go env GOVERSION',
  pinned: 'go1.26.8',
}

export const tinygo: Toolchain = {
  name: 'TinyGo',
  probe: `test -d /usr/include/wasm32-wasi
    command -v clang-19 wasm-ld-19 > /dev/null
    echo TinyGo 0.41.1
    go env GOVERSION
    llvm-config-19 --version | sed 's/^/LLVM /'
    ${WASM_OPT}`,
  pinned: 'TinyGo 0.41.1, go1.26.8, LLVM 19.1.7, wasm-opt 108',
  get: 'Go and, on Debian 12, apt install llvm-19-dev libclang-19-dev clang-19 lld-19 libclang-rt-19-dev-wasm32 wasi-libc binaryen',
}

export const assemblyscript: Toolchain = {
  ...LANGUAGES.assemblyscript.toolchain,
  probe: `npm --version > /dev/null
    node -p '"AssemblyScript " + require("./hello-assemblyscript/package.json").devDependencies.assemblyscript'`,
  pinned: 'AssemblyScript 0.28.20',
}

export const wabt: Toolchain = {
  ...LANGUAGES.wat.toolchain,
  probe: `npm --version > /dev/null
    node -p '"wabt " + require("./hello-wat/package.json").devDependencies.wabt'`,
  pinned: 'wabt 1.0.39',
}

export const c: Toolchain = {
  ...LANGUAGES.c.toolchain,
  probe: `${wasiClang('clang', 'c', 'stdlib.h')}
    ${WASM_OPT} || echo no wasm-opt`,
  pinned: 'clang 14.0.6, wasm-opt 108',
}

export const cpp: Toolchain = {
  ...LANGUAGES.cpp.toolchain,
  probe: `${wasiClang('clang++-19', 'c++', 'string')}
    ${WASM_OPT} || echo no wasm-opt`,
  pinned: 'clang 19.1.7 (3~deb12u1), wasm-opt 108',
}

export const zig: Toolchain = {
  ...LANGUAGES.zig.toolchain,
  probe: `\${ZIG:-zig} version | sed 's/^/Zig /'`,
  pinned: 'Zig 0.15.2',
}

/** QuickJS is C, and clang compiles it. */
export const quickjs: Toolchain = {
  name: 'Rust with clang for WASI',
  get: 'https://rustup.rs, rustup target add wasm32-wasip1 and, on Debian 12, apt install clang-19 llvm-19 wasi-libc libclang-rt-19-dev-wasm32',
  probe: `cargo --version > /dev/null
    ${hasTarget('wasm32-wasip1')}
    command -v llvm-ar-19 > /dev/null
    ${RUST_VERSION}
    ${wasiClang('clang-19', 'c', 'stdlib.h')}`,
  pinned: 'Rust 1.95.0, clang 19.1.7 (3~deb12u1)',
}
