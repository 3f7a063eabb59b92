import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { UsageError } from '../../errors/errors.ts'
import type { Config } from '../../options/config.ts'
import { findConfigFile } from '../../options/config-file.ts'
import { isObject, parseJson } from '../../platform/json-text.ts'
import { isUrl } from '../../plugin/source/url.ts'

/** What a developer works on. */
export interface Project {
  /** The folder of its sources. */
  readonly folder: string
  /** undefined if it is served as it is. */
  readonly build: BuildCommand | undefined
  /** The command line that serves it. Call it after a build, which makes the plug-ins. */
  served(): Config
}

/** A program and its arguments. It runs in the folder of the project. */
export interface BuildCommand {
  readonly words: readonly [program: string, ...words: string[]]
  /** Additional variables. */
  readonly environment: Readonly<Record<string, string>>
}

/**
 * Finds the project that a command line names: a script, a folder, or a config file. Default: the working folder.
 *
 * @throws UsageError if there is no such file.
 */
export function findProject(config: Config): Project {
  const { words, configFile } = config
  if (words.length === 0 && configFile !== undefined) {
    const folder = dirname(configFile)
    return { folder, build: buildOf(folder), served: () => config }
  }
  const [place = '.', ...more] = words
  if (isUrl(place)) return { folder: '.', build: undefined, served: () => config }
  if (!existsSync(place)) throw new UsageError(`dev: there is no file or folder ${place}`)
  if (!statSync(place).isDirectory())
    return { folder: dirname(place), build: undefined, served: () => config }
  const build = buildOf(place)
  return {
    folder: place,
    build,
    served() {
      const file = findConfigFile(place)
      if (file !== undefined) return { ...config, configFile: join(place, file), words: more }
      return { ...config, words: [...pluginsOf(place, build), ...more] }
    },
  }
}

/** What a folder serves without a config file: what was built, else the folder. */
export function pluginsOf(folder: string, build = buildOf(folder)): readonly string[] {
  const built = build ? builtIn(folder) : []
  return built.length > 0 ? built : [folder]
}

/** How a folder is built: by the first of these files that it has. */
export function buildOf(folder: string): BuildCommand | undefined {
  const has = (file: string) => existsSync(join(folder, file))
  if (has('build.sh')) return { words: [bash(), 'build.sh'], environment: {} }
  if (has('Cargo.toml')) {
    const target = has('.cargo') ? [] : ['--target', 'wasm32-unknown-unknown']
    return { words: ['cargo', 'build', '--release', ...target], environment: {} }
  }
  if (has('go.mod')) {
    const output = `${basename(resolve(folder))}.wasm`
    return {
      words: ['go', 'build', '-buildmode=c-shared', '-o', output, '.'],
      environment: { GOOS: 'wasip1', GOARCH: 'wasm' },
    }
  }
  return has('package.json') && hasBuildScript(join(folder, 'package.json'))
    ? { words: ['npm', 'run', '--silent', 'build'], environment: {} }
    : undefined
}

/** The program that runs `build.sh`: on Windows that of Git, because `bash` is often that of a virtual machine (WSL). */
export function bash(): string {
  if (process.platform !== 'win32') return 'bash'
  const ofGit = join(process.env.ProgramFiles ?? 'C:\\Program Files', 'Git', 'bin', 'bash.exe')
  return existsSync(ofGit) ? ofGit : 'bash'
}

/** A script needs no `wasm-serve build` to be served. */
function hasBuildScript(path: string): boolean {
  const parsed = parseJson(readFileSync(path, 'utf8'))
  const scripts = 'value' in parsed && isObject(parsed.value) ? parsed.value.scripts : undefined
  const build = isObject(scripts) ? scripts.build : undefined
  return typeof build === 'string' && !build.startsWith('wasm-serve build')
}

/** Where builds put their results, relative to the folder. */
const RESULTS = [
  '.',
  'dist',
  'build',
  'target/wasm32-unknown-unknown/release',
  'target/wasm32-wasip1/release',
]

/** The plug-ins that were built: those of the first folder that has any. */
function builtIn(folder: string): string[] {
  const found = RESULTS.map((name) => modulesIn(join(folder, name)))
  return found.find((paths) => paths.length > 0) ?? []
}

function modulesIn(folder: string): string[] {
  if (!existsSync(folder)) return []
  return readdirSync(folder)
    .filter((name) => name.endsWith('.wasm'))
    .map((name) => join(folder, name))
}
