import { execFile } from 'node:child_process'
import { existsSync, readdirSync, statSync } from 'node:fs'
import { join, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { TINYGO } from '../../plugins/rebuild.ts'
import { c, findToolchain, go, rust, type Toolchain, tinygo } from '../../plugins/toolchains.ts'

/** A plug-in with the three workloads. */
export interface MemoryGuest {
  readonly language: string
  /** Its memory manager. */
  readonly manager: string
  readonly toolchain: Toolchain
  /** Below `bench/guests/memory`. */
  readonly folder: string
  /** Shell commands, run in the folder, that build `target/<file>.wasm`. */
  readonly build: string
  readonly file: string
}

const ROOT = fileURLToPath(new URL('../guests/memory/', import.meta.url))

/** Hello, whose memory is never given back. */
export const LEAKING_HELLO: MemoryGuest = {
  ...inTinyGo('leaking', '-gc=leaking'),
  folder: '../../../plugins/hello-tinygo',
}

/** The first guest of a language is the baseline of the others. */
export const GUESTS: readonly MemoryGuest[] = [
  inTinyGo('precise', '-gc=precise'),
  inTinyGo('conservative', '-gc=conservative'),
  { ...inTinyGo('boehm', '-gc=boehm'), build: `bash boehm.sh && ${tinyGoBuild('boehm', '-gc=boehm')}` },
  inTinyGo('nottinygc 0.7.1', '-gc=custom -tags=custommalloc -scheduler=none', 'nottinygc'),
  inTinyGo('leaking', '-gc=leaking'),
  {
    language: 'Go',
    manager: 'its own',
    toolchain: go,
    folder: 'go',
    file: 'go',
    build: `GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -trimpath -ldflags='-s -w' -o target/go.wasm .`,
  },
  inRust('dlmalloc (default)', 'dlmalloc', ''),
  inRust('talc 4.4.3', 'talc', '--features talc'),
  inRust('lol_alloc 0.4.1', 'lol_alloc', '--features lol_alloc'),
  {
    language: 'C',
    manager: 'dlmalloc of wasi-libc',
    toolchain: c,
    folder: 'c',
    file: 'c',
    build: `mkdir -p target
      clang --target=wasm32-wasi -mexec-model=reactor -std=c11 -Wall -Wextra -Werror -O2 -s -o target/c.wasm memory.c`,
  },
]

function inTinyGo(manager: string, flags: string, file = manager): MemoryGuest {
  const build = tinyGoBuild(file, flags)
  return { language: 'TinyGo', manager, toolchain: tinygo, folder: 'go', file, build }
}

function tinyGoBuild(file: string, flags: string): string {
  return `mkdir -p target
    "$TINYGO" build -target=wasip1 -buildmode=c-shared -no-debug ${flags} -o target/${file}.wasm .`
}

function inRust(manager: string, file: string, flags: string): MemoryGuest {
  const build = `cargo build --release --locked --target wasm32-unknown-unknown ${flags}
    cp target/wasm32-unknown-unknown/release/memory.wasm target/${file}.wasm`
  return { language: 'Rust', manager, toolchain: rust, folder: 'rust', file, build }
}

/** A guest's plug-in, or the reason that there is none. */
type BuiltGuest =
  | { readonly guest: MemoryGuest; readonly path: string; readonly bytes: number }
  | { readonly guest: MemoryGuest; readonly missing: string }

/** Builds the guests with installed toolchains, unless an earlier build is newer than the sources. */
export async function buildGuests(
  guests: readonly MemoryGuest[],
  progress: (line: string) => void,
): Promise<BuiltGuest[]> {
  const built: BuiltGuest[] = []
  for (const guest of guests) built.push(await buildGuest(guest, progress))
  return built
}

export async function buildGuest(guest: MemoryGuest, progress: (line: string) => void): Promise<BuiltGuest> {
  const { language, manager, toolchain, folder, file, build } = guest
  const cwd = join(ROOT, folder)
  const path = join(cwd, 'target', `${file}.wasm`)
  if (isNewest(path, cwd)) return found(guest, path)
  if ((await findToolchain(toolchain)) === undefined)
    return { guest, missing: `${toolchain.name} is missing` }
  progress(`${language}, ${manager}: building`)
  try {
    const env = { TINYGO, ...process.env }
    await promisify(execFile)('bash', ['-euc', build], { cwd, env, maxBuffer: 64 * 1_048_576 })
    return found(guest, path)
  } catch (error) {
    progress(String(error))
    return { guest, missing: 'its build failed' }
  }
}

function found(guest: MemoryGuest, path: string): BuiltGuest {
  return { guest, path, bytes: statSync(path).size }
}

function isNewest(path: string, folder: string): boolean {
  if (!existsSync(path)) return false
  const { mtimeMs } = statSync(path)
  const sources = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter(
    (source) => !source.split(sep).includes('target'),
  )
  return sources.every((source) => statSync(join(folder, source)).mtimeMs <= mtimeMs)
}
