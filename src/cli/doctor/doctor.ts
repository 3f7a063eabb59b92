import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { openSandbox } from '../../engine/subprocess/sandbox.ts'
import { UsageError } from '../../errors/errors.ts'
import type { Environment } from '../../options/config.ts'
import { defaultCacheFolder } from '../../platform/cache-folder.ts'
import { isObject } from '../../platform/json-text.ts'
import { packageFile, packageVersion } from '../../platform/packages.ts'
import { errorCode, openFiles } from '../../platform/system-errors.ts'
import { renderTable } from '../../platform/text.ts'
import { problemWithPath } from '../../platform/trusted-path.ts'
import { type Command, renderPage, takeOwnFlags } from '../command.ts'
import { bash } from '../dev/project.ts'
import { LANGUAGES } from '../new/languages.ts'
import { installHere, missingPrograms, type ToolchainSource } from '../new/toolchain.ts'

/** Flags of this command only. */
export const DOCTOR_FLAGS = {
  json: { kind: 'switch', description: 'Print the result as JSON.' },
  help: { kind: 'switch', short: 'h', description: 'Show this page.' },
} as const

const HELP = renderPage({
  usage: 'wasm-serve doctor [flags]',
  about:
    'Lists Node.js, toolchains, optional packages, limits, the cache folder and\nsubprocess support of this machine, and how to get what is missing.',
  examples: ['wasm-serve doctor --json', 'wasm-serve doctor'],
  flags: DOCTOR_FLAGS,
  more: 'Exits with 0 even if something is missing: no plug-in needs everything.',
})

/** Something that this machine has or lacks. */
interface Finding {
  readonly kind: 'node' | 'toolchain' | 'package' | 'limit' | 'cache' | 'subprocess'
  readonly name: string
  readonly ok: boolean
  /** What was found; if it is missing, what to do. */
  readonly detail: string
}

/** Lists what this machine has. */
export const doctor: Command = {
  async run(argv, { out, environment }) {
    const { values, rest } = takeOwnFlags(argv, DOCTOR_FLAGS)
    if (values.help) return out.write(HELP)
    const [odd] = rest
    if (odd !== undefined) throw new UsageError(`doctor: unexpected "${odd}"`)
    const findings = await examine(environment)
    if (values.json) {
      out.write(`${JSON.stringify({ version: packageVersion(), findings }, null, 2)}\n`)
      return
    }
    const rows = findings.map(({ kind, name, ok, detail }) => [ok ? 'ok' : 'missing', kind, name, detail])
    out.write(`${renderTable(rows).join('\n')}\n`)
  },
}

async function examine(environment: Environment): Promise<Finding[]> {
  return [
    nodeVersion(),
    ...toolchains(environment),
    ...optionalPackages(),
    descriptorLimit(),
    cacheFolder(environment),
    ...(await subprocesses()),
  ]
}

/** `engines` of `package.json`: from 20.19 on in version 20, and later ones from 22.12 on. */
const FIRST_NODE = [20, 19] as const
const FIRST_LATER_NODE = [22, 12] as const

/** What later versions have in addition. */
const NODE_FEATURES = [
  [[22, 13], 'TypeScript without esbuild'],
  [[24, 0], 'guests that wait without a thread, and slices of long calls'],
] as const

function nodeVersion(): Finding {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  const isSince = ([wanted, least]: readonly [number, number]) =>
    major > wanted || (major === wanted && minor >= least)
  const more = NODE_FEATURES.filter(([since]) => !isSince(since)).map(
    ([since, what]) => `; ${since.join('.')} has ${what}`,
  )
  const get = more.length > 0 ? ': https://nodejs.org' : ''
  return {
    kind: 'node',
    name: 'Node.js',
    ok: isSince(major === FIRST_NODE[0] ? FIRST_NODE : FIRST_LATER_NODE),
    detail: `${process.version}${more.join('')}${get}`,
  }
}

/** Runs `build.sh`. Other systems have it. */
const BASH: ToolchainSource = {
  name: 'Git for Windows',
  get: 'winget install Git.Git',
  programs: [[bash(), '--version']],
}

function toolchains(environment: Environment): Finding[] {
  const all = [
    ...Object.entries<{ readonly toolchain: ToolchainSource }>(LANGUAGES),
    ...(process.platform === 'win32' ? [['bash', { toolchain: BASH }] as const] : []),
  ]
  return all.map(([name, { toolchain }]) => {
    const missing = missingPrograms(toolchain, environment)
    const ok = missing.length === 0
    return {
      kind: 'toolchain',
      name,
      ok,
      detail: ok ? toolchain.name : `${missing.join(', ')}: ${installHere(toolchain)}`,
    }
  })
}

/** What the optional packages are for. */
const PURPOSES: Readonly<Record<string, string>> = {
  '@fastify/compress': 'compress',
  '@fastify/cors': 'cors',
  '@fastify/rate-limit': 'rateLimit',
  '@fastify/send': 'static',
  '@fastify/websocket': 'contract: websocket',
  '@opentelemetry/api': 'traces',
  '@opentelemetry/sdk-node': 'otel',
  '@redis/client': 'stores and fleets in Redis',
  '@sigstore/bundle': 'trust',
  '@sigstore/protobuf-specs': 'trust',
  '@sigstore/verify': 'trust',
  autocannon: 'bench',
  esbuild: 'imports of scripts, and TypeScript with enums or before Node.js 22.13',
  jose: 'jwt',
  lmdb: 'stores on disk',
  'prom-client': 'metrics of the process',
}

function optionalPackages(): Finding[] {
  const manifest: unknown = JSON.parse(readFileSync(packageFile('package.json'), 'utf8'))
  const peers = isObject(manifest) && isObject(manifest.peerDependencies) ? manifest.peerDependencies : {}
  const { resolve } = createRequire(packageFile('package.json'))
  return Object.keys(peers).map((name) => {
    const ok = isThere(() => resolve(name))
    const purpose = `for ${PURPOSES[name] ?? 'an option'}`
    return { kind: 'package', name, ok, detail: ok ? purpose : `npm install ${name}, ${purpose}` }
  })
}

/** A package that cannot be required, but imported, is there. */
function isThere(resolve: () => string): boolean {
  try {
    resolve()
    return true
  } catch (error) {
    return errorCode(error) !== 'MODULE_NOT_FOUND'
  }
}

/** Enough for some thousand connections. */
const ENOUGH_FILES = 4_096

function descriptorLimit(): Finding {
  const limit = openFiles()
  const ok = limit === undefined || limit >= ENOUGH_FILES
  const remedy = ok ? '' : ': raise it (ulimit -n; LimitNOFILE= of systemd, --ulimit nofile= of Docker)'
  return { kind: 'limit', name: 'open files', ok, detail: `${limit ?? 'unlimited'}${remedy}` }
}

/** Folders that were made with a umask of 002 are writable by a group. */
function cacheFolder(environment: Environment): Finding {
  const folder = defaultCacheFolder(environment)
  const problem = problemWithPath(folder)
  const detail = problem === undefined ? folder : `starts are slower without it: ${problem}`
  return { kind: 'cache', name: 'cache folder', ok: problem === undefined, detail }
}

/** What surrounds the processes of guests here. */
async function subprocesses(): Promise<Finding[]> {
  const { report } = await openSandbox()
  const layers = [
    ['permission model', report.permissionModel, 'another version of Node.js'],
    ['network namespace', report.networkNamespace, 'Linux with unshare (util-linux), allowed by the kernel'],
    [
      'another user',
      report.user !== undefined,
      'Linux with setpriv (util-linux), and a server started by root',
    ],
    ['no capabilities', report.capabilities === 'none', 'Linux with setpriv (util-linux)'],
    ['no new privileges', report.noNewPrivileges, 'Linux with setpriv (util-linux)'],
    ['resource limits', report.resourceLimits, 'Linux with prlimit (util-linux)'],
  ] as const
  return layers.map(([name, ok, needs]) => ({
    kind: 'subprocess',
    name,
    ok,
    detail: ok ? 'for engine: subprocess' : `engine: subprocess is safer with it: ${needs}`,
  }))
}
