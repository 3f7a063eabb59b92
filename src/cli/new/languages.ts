/** A language for new projects. Its template is the hello plug-in of that language in `plugins`. */
export interface Language {
  /** The display name; in lower case it is accepted on the command line too. */
  readonly title: string
  /** The folder of `plugins` with the template. */
  readonly folder: string
  /** The files of the template. */
  readonly files: readonly string[]
  /** The file that a user edits first. */
  readonly source: string
  readonly toolchain: ToolchainSource
}

/** Display name of the build tool. */
export interface ToolchainSource {
  readonly name: string
  /** One-line installation instructions. */
  readonly get: string
}

/** By name on the command line. */
export const LANGUAGES = {
  rust: {
    title: 'Rust',
    folder: 'hello',
    files: ['build.sh', 'Cargo.lock', 'Cargo.toml', 'src/lib.rs'],
    source: 'src/lib.rs',
    toolchain: {
      name: 'Rust',
      get: 'https://rustup.rs, then rustup target add wasm32-unknown-unknown',
    },
  },
  go: {
    title: 'Go',
    folder: 'hello-go',
    files: ['build.sh', 'go.mod', 'go.sum', 'main.go'],
    source: 'main.go',
    toolchain: {
      name: 'Go',
      get: 'https://go.dev/dl, 1.24 or later',
    },
  },
  tinygo: {
    title: 'TinyGo',
    folder: 'hello-tinygo',
    files: ['build.sh', 'go.mod', 'go.sum', 'main.go'],
    source: 'main.go',
    toolchain: {
      name: 'TinyGo',
      get: 'https://tinygo.org/getting-started/install, 0.41 or later, and Go',
    },
  },
  assemblyscript: {
    title: 'AssemblyScript',
    folder: 'hello-assemblyscript',
    files: ['build.sh', 'index.ts', 'package-lock.json', 'package.json'],
    source: 'index.ts',
    toolchain: {
      name: 'npm',
      get: 'https://nodejs.org',
    },
  },
  js: {
    title: 'JavaScript',
    folder: 'hello-js',
    files: ['build.sh', '.cargo/config.toml', 'Cargo.lock', 'Cargo.toml', 'hello.js', 'src/lib.rs'],
    source: 'hello.js',
    toolchain: {
      name: 'Rust with clang for WASI',
      get: 'https://rustup.rs, rustup target add wasm32-wasip1 and, on Debian 12, apt install clang-19 llvm-19 wasi-libc libclang-rt-19-dev-wasm32',
    },
  },
  c: {
    title: 'C',
    folder: 'hello-c',
    files: ['build.sh', 'extism.h', 'hello.c'],
    source: 'hello.c',
    toolchain: {
      name: 'clang for WASI',
      get: 'on Debian 12, apt install clang lld wasi-libc libclang-rt-14-dev-wasm32 binaryen',
    },
  },
  cpp: {
    title: 'C++',
    folder: 'hello-cpp',
    files: ['build.sh', 'extism.h', 'hello.cc'],
    source: 'hello.cc',
    toolchain: {
      name: 'clang++ for WASI',
      get: 'on Debian 12, apt install clang-19 lld-19 wasi-libc libclang-rt-19-dev-wasm32 libc++-19-dev-wasm32 libc++abi-19-dev-wasm32 binaryen',
    },
  },
  zig: {
    title: 'Zig',
    folder: 'hello-zig',
    files: ['build.sh', 'hello.zig'],
    source: 'hello.zig',
    toolchain: {
      name: 'Zig',
      get: 'pip install ziglang==0.15.2, then export ZIG="python3 -m ziglang"',
    },
  },
  wat: {
    title: 'WAT',
    folder: 'hello-wat',
    files: ['build.sh', 'hello.wat', 'package-lock.json', 'package.json'],
    source: 'hello.wat',
    toolchain: {
      name: 'npm',
      get: 'https://nodejs.org',
    },
  },
} as const satisfies Readonly<Record<string, Language>>

/** Finds a language by name (`js`) or title (`JavaScript`), ignoring case. */
export function languageOf(word: string): Language | undefined {
  const wanted = word.toLowerCase()
  return Object.entries<Language>(LANGUAGES).find(
    ([name, { title }]) => name === wanted || title.toLowerCase() === wanted,
  )?.[1]
}
