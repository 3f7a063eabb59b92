import { execFile } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

/** A server in another language: a program of this repository, which has only its source. */
interface Peer {
  /** Its folder. */
  readonly name: 'fiber' | 'axum'
  readonly compiler: readonly [program: string, ...args: string[]]
  readonly build: readonly [program: string, ...args: string[]]
  /** What its build writes, below its folder. */
  readonly program: string
  /** The file that pins its dependencies, and the versions worth reporting. */
  readonly pins: readonly [file: string, pattern: RegExp]
}

const PEERS: readonly Peer[] = [
  {
    name: 'fiber',
    compiler: ['go', 'env', 'GOVERSION'],
    build: ['go', 'build', '-o', 'target/peer-fiber', '.'],
    program: 'target/peer-fiber',
    pins: ['go.mod', /(fiber|go-sdk|wazero)(?:\/v\d+)? v([\d.]+)/g],
  },
  {
    name: 'axum',
    compiler: ['rustc', '--version'],
    build: ['cargo', 'build', '--release', '--locked'],
    program: 'target/release/peer-axum',
    pins: ['Cargo.lock', /name = "(axum|extism|wasmtime)"\nversion = "([\d.]+)"/g],
  },
]

export interface BuiltPeers {
  /** Paths of the programs. */
  readonly programs: Partial<Record<Peer['name'], string>>
  /** What they are made of. */
  readonly versions: readonly string[]
  /** Why others are missing. */
  readonly skipped: readonly string[]
}

/** Builds the peers whose toolchains are here; the first time takes minutes and gets their packages. */
export async function buildPeers(progress: (line: string) => void): Promise<BuiltPeers> {
  const programs: Partial<Record<Peer['name'], string>> = {}
  const [versions, skipped]: [string[], string[]] = [[], []]
  for (const peer of PEERS) {
    const cwd = fileURLToPath(new URL(peer.name, import.meta.url))
    try {
      const compiler = await run(peer.compiler, cwd)
      progress(`${peer.name}: building with ${compiler}`)
      await run(peer.build, cwd)
      programs[peer.name] = `${cwd}/${peer.program}`
      versions.push([compiler, ...pinned(peer, cwd)].join(', '))
    } catch (error) {
      skipped.push(`${peer.name} could not be built: ${firstLine(error)}`)
      progress(`SKIPPED: ${skipped.at(-1)}`)
    }
  }
  return { programs, versions, skipped }
}

/** The programs that were built before, by name. */
export function findPeers(): BuiltPeers['programs'] {
  const found = PEERS.map(({ name, program }) => [
    name,
    fileURLToPath(new URL(`${name}/${program}`, import.meta.url)),
  ])
  return Object.fromEntries(found.filter(([, path]) => path !== undefined && existsSync(path)))
}

async function run([program, ...args]: readonly [string, ...string[]], cwd: string): Promise<string> {
  const { stdout } = await promisify(execFile)(program, args, { cwd, maxBuffer: 16 * 1_048_576 })
  return stdout.trim()
}

function pinned({ pins: [file, pattern] }: Peer, cwd: string): string[] {
  const text = readFileSync(`${cwd}/${file}`, 'utf8')
  return [...text.matchAll(pattern)].map(([, name, version]) => `${name} ${version}`)
}

function firstLine(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error)
  return text.split('\n').slice(0, 2).join(' ')
}
