import { type Purpose, TEMPLATES, templateOf } from './purposes.ts'
import type { ToolchainSource } from './toolchain.ts'

/** A language of new projects that needs a build. Its templates are example plug-ins of `plugins`, or made of their files. */
export interface Language {
  /** The display name; in lower case it is accepted on the command line too. */
  readonly title: string
  /** The file that a user edits first. */
  readonly source: string
  readonly toolchain: ToolchainSource
  /** The templates. Each language has `hello`, of which `tool` is made. */
  readonly templates: Partial<Readonly<Record<Purpose, Template>>> & { readonly hello: Template }
}

/** What a project is made of. */
export interface Template {
  /** The name of the plug-in that its build files make, which becomes that of the project. */
  readonly made: string
  /** Paths below `plugins`, by paths in the project. */
  readonly files: Readonly<Record<string, string>>
}

/** Files of a folder of `plugins`, which have the same paths in the project. */
function filesOf(folder: string, ...paths: readonly string[]): Readonly<Record<string, string>> {
  return Object.fromEntries(paths.map((path) => [path, `${folder}/${path}`]))
}

const CARGO = ['build.sh', 'Cargo.lock', 'Cargo.toml'] as const
const GO = filesOf('hello-go', 'build.sh', 'go.mod', 'go.sum')

/** A template in Go: its main file, and files that can be copied into any plug-in. */
function goTemplate(purpose: Purpose, libraries: Readonly<Record<string, string>>): Template {
  return { made: 'hello', files: { ...GO, 'main.go': `templates/${purpose}/main.go`, ...libraries } }
}

/** Compiles nothing, but needs the headers of WASI. */
const WASI_HEADER = ['--target=wasm32-wasi', '-fsyntax-only'] as const

const NODE = {
  name: 'npm',
  get: 'https://nodejs.org',
  installs: {
    Debian: 'apt install npm',
    Fedora: 'dnf install nodejs-npm',
    macOS: 'brew install node',
    Windows: 'winget install OpenJS.NodeJS',
  },
  programs: [['npm', '--version']],
} as const satisfies ToolchainSource

/** What follows the installation of rustup. */
const WASM_TARGET = 'rustup target add wasm32-unknown-unknown'

/** Languages of new plug-ins that need a build, by their names on the command line. */
export const LANGUAGES = {
  rust: {
    title: 'Rust',
    source: 'src/lib.rs',
    toolchain: {
      name: 'Rust',
      get: `https://rustup.rs, then ${WASM_TARGET}`,
      installs: {
        Fedora: `dnf install rustup && rustup-init -y && ${WASM_TARGET}`,
        macOS: `brew install rustup && rustup default stable && ${WASM_TARGET}`,
        Windows: `winget install Rustlang.Rustup, then ${WASM_TARGET}`,
      },
      programs: [['cargo', '--version']],
    },
    templates: {
      hello: { made: 'hello', files: filesOf('hello', ...CARGO, 'src/lib.rs') },
      http: {
        made: 'http',
        files: {
          ...filesOf('http-rust', ...CARGO, 'src/http.rs'),
          'src/lib.rs': 'templates/http/lib.rs',
        },
      },
      kv: { made: 'visits', files: filesOf('visits', ...CARGO, 'src/lib.rs') },
      stream: {
        made: 'socket',
        files: {
          ...filesOf('socket-rust', ...CARGO),
          ...filesOf('streams-rust', 'src/stream.rs'),
          'src/lib.rs': 'templates/stream/lib.rs',
        },
      },
      websocket: {
        made: 'socket',
        files: {
          ...filesOf('socket-rust', ...CARGO, 'src/socket.rs'),
          'src/lib.rs': 'templates/websocket/lib.rs',
        },
      },
    },
  },
  go: {
    title: 'Go',
    source: 'main.go',
    toolchain: {
      name: 'Go',
      get: 'https://go.dev/dl, 1.24 or later',
      installs: {
        Debian: 'apt install golang (Debian 13; before it https://go.dev/dl)',
        Fedora: 'dnf install golang',
        macOS: 'brew install go',
        Windows: 'winget install GoLang.Go',
      },
      programs: [['go', 'version']],
      since: '1.24',
    },
    templates: {
      hello: { made: 'hello', files: { ...GO, ...filesOf('hello-go', 'main.go') } },
      http: goTemplate('http', filesOf('http-go', 'http.go')),
      kv: goTemplate('kv', filesOf('templates/kv', 'kv.go')),
      stream: goTemplate('stream', filesOf('streams-go', 'stream.go')),
      websocket: goTemplate('websocket', filesOf('templates/websocket', 'socket.go')),
    },
  },
  tinygo: {
    title: 'TinyGo',
    source: 'main.go',
    toolchain: {
      name: 'TinyGo',
      get: 'https://tinygo.org/getting-started/install, 0.41 or later, and Go',
      installs: {
        macOS: 'brew install go tinygo-org/tools/tinygo',
        Windows: 'scoop install go tinygo',
      },
      programs: [
        ['tinygo', 'version'],
        ['go', 'version'],
      ],
      since: '0.41',
    },
    templates: {
      hello: { made: 'hello', files: filesOf('hello-tinygo', 'build.sh', 'go.mod', 'go.sum', 'main.go') },
    },
  },
  assemblyscript: {
    title: 'AssemblyScript',
    source: 'index.ts',
    toolchain: NODE,
    templates: {
      hello: {
        made: 'hello',
        files: filesOf('hello-assemblyscript', 'build.sh', 'index.ts', 'package.json'),
      },
    },
  },
  c: {
    title: 'C',
    source: 'hello.c',
    toolchain: {
      name: 'clang for WASI',
      get: 'https://github.com/WebAssembly/wasi-sdk, whose bin/clang the variable CC names',
      installs: {
        Debian: 'apt install clang lld wasi-libc libclang-rt-14-dev-wasm32 binaryen (Debian 12)',
      },
      programs: [['clang', ...WASI_HEADER, '-xc', '-include', 'stdlib.h', '/dev/null']],
    },
    templates: {
      hello: { made: 'hello', files: filesOf('hello-c', 'build.sh', 'extism.h', 'hello.c') },
    },
  },
  cpp: {
    title: 'C++',
    source: 'hello.cc',
    toolchain: {
      name: 'clang++ for WASI',
      get: 'https://github.com/WebAssembly/wasi-sdk, whose bin/clang++ has to be found as clang++-19',
      installs: {
        Debian:
          'apt install clang-19 lld-19 wasi-libc libclang-rt-19-dev-wasm32 libc++-19-dev-wasm32 libc++abi-19-dev-wasm32 binaryen (Debian 12)',
      },
      programs: [['clang++-19', ...WASI_HEADER, '-xc++', '-include', 'string', '/dev/null']],
    },
    templates: {
      hello: { made: 'hello', files: filesOf('hello-cpp', 'build.sh', 'extism.h', 'hello.cc') },
    },
  },
  zig: {
    title: 'Zig',
    source: 'hello.zig',
    toolchain: {
      name: 'Zig',
      get: 'pip install ziglang==0.15.2, then export ZIG="python3 -m ziglang"',
      programs: [['zig', 'version']],
    },
    templates: {
      hello: { made: 'hello', files: filesOf('hello-zig', 'build.sh', 'hello.zig') },
    },
  },
  wat: {
    title: 'WAT',
    source: 'hello.wat',
    toolchain: NODE,
    templates: {
      hello: { made: 'hello', files: filesOf('hello-wat', 'build.sh', 'hello.wat', 'package.json') },
    },
  },
} as const satisfies Readonly<Record<string, Language>>

/** A language that needs no build. It has a template for each purpose. */
export interface ScriptLanguage {
  readonly title: string
  /** The end of the names of its files, which names the language, too. */
  readonly extension: string
  readonly needs: string
}

/** Languages of new scripts by their names on the command line. */
export const SCRIPT_LANGUAGES = {
  typescript: {
    title: 'TypeScript',
    extension: 'ts',
    needs: 'no build; Node.js 22.13, else npm install esbuild',
  },
  javascript: { title: 'JavaScript', extension: 'js', needs: 'no build' },
} as const satisfies Readonly<Record<string, ScriptLanguage>>

/** The names of all languages, in the order in which they are offered. */
export const LANGUAGE_NAMES: readonly string[] = [...Object.keys(SCRIPT_LANGUAGES), ...Object.keys(LANGUAGES)]

/** Finds a language by its name (`cpp`), title (`C++`) or extension (`ts`), ignoring case. */
export function findLanguage(word: string): Language | ScriptLanguage | undefined {
  const wanted = word.toLowerCase()
  const all = Object.entries<Language | ScriptLanguage>({ ...SCRIPT_LANGUAGES, ...LANGUAGES })
  return all.find(
    ([name, language]) =>
      name === wanted ||
      language.title.toLowerCase() === wanted ||
      ('extension' in language && language.extension === wanted),
  )?.[1]
}

/** The purposes that a language has templates for. */
export function purposesOf(language: Language | ScriptLanguage): readonly Purpose[] {
  if (!('templates' in language)) return TEMPLATES
  return TEMPLATES.filter((purpose) => language.templates[templateOf(purpose)] !== undefined)
}
