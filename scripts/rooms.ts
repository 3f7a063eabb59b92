import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path/posix'
import { argv, exit } from 'node:process'
import { fileURLToPath } from 'node:url'

/*
 * The folders of `src/`, from the top to the cellar. A file imports from its own folder and from those below it, types
 * included; files do not import each other in a circle; the files at the root of `src/` are doors, which nothing
 * imports but another door. The console, a program of browsers, has a folder by itself. `npm run check` holds the sources to that, and CONTRIBUTING.md prints this table.
 */

/** The purpose of each folder, in order. */
export const ROOMS = [
  ['cli', 'From the words of a command line to an exit code: flags, commands, help, completion.'],
  [
    'admin',
    'The listener for operators: health, metrics, API, console. It changes the deployment only through `deploy/`.',
  ],
  ['deploy', 'The deployment and its changes: plan, edits, state folder, watching, reload.'],
  [
    'server',
    'Sockets and the Fastify app behind them: listener, TLS, HTTP/2, drain, shutdown; `edge/` has the checks before all routes.',
  ],
  ['mcp', 'Routes as tools for agents: the MCP endpoint, its revisions, descriptions and results of tools.'],
  [
    'route',
    'One route: its handler, its batch of calls, hooks, problem details; opens all its resources. The Fastify plugin.',
  ],
  ['options', 'The only description of the options: schema, flags, config files, precedence.'],
  ['contract', 'Converts an HTTP exchange to guest bytes and back.'],
  ['extism', "The kernel without HTTP, with the interface of Extism's JavaScript SDK."],
  ['engine', 'Runs instances, schedules and ends their calls: inline, workers, subprocesses, watchdog.'],
  ['runtime', 'Connects a guest with its host: kernel, linking, renewal, WASI, the SDK.'],
  ['guest', 'Services for guests: host functions, outbound HTTP, stores, variables.'],
  ['plugin', 'Loads a plug-in: source, manifest, download, cache, compiled modules.'],
  ['script', 'Makes a plug-in of a script: JavaScript, TypeScript without its types, bundles.'],
  ['module', 'The Wasm binary: the reader, its limits, the memory limit, the variant for `fresh`.'],
  ['observe', 'Logs, metrics, traces.'],
  ['platform', 'Process-wide state of Node.js, V8 and the operating system, and workarounds for them.'],
  ['errors', 'Every failure that we cause: its class, its code, its status.'],
] as const satisfies readonly (readonly [name: string, purpose: string])[]

/**
 * Violations of the rules in a tree of sources, a line each. @param read - The text of each file, by its path below
 * `src/`.
 */
export function brokenRules(read: ReadonlyMap<string, string>): string[] {
  const imports = new Map([...read].map(([path, text]) => [path, importsOf(path, text)]))
  const upwards = [...imports].flatMap(([path, targets]) =>
    targets
      .filter((target) => !read.has(target) || !mayImport(path, target))
      .map(
        (target) =>
          `${path} imports ${target}, ${read.has(target) ? 'which is not below it' : 'which is not there'}`,
      ),
  )
  const unknown = [...read.keys()].filter((path) => path.includes('/') && floorOf(path) < 0)
  return [
    ...unknown.map((path) => `${path} is in a folder that scripts/rooms.ts does not know`),
    ...upwards,
    ...circles(imports).map((circle) => `these import each other in a circle: ${circle.join(', ')}`),
  ]
}

/** The table for CONTRIBUTING.md. */
export function renderRooms(): string {
  const rows = ROOMS.map(([name, purpose]) => `| \`${name}/\` | ${purpose} |`)
  return ['| folder | purpose |', '| --- | --- |', ...rows].join('\n')
}

function mayImport(from: string, to: string): boolean {
  if (!to.includes('/')) return !from.includes('/')
  return !from.includes('/') || floorOf(from) <= floorOf(to)
}

function floorOf(path: string): number {
  return ROOMS.findIndex(([name]) => path.startsWith(`${name}/`))
}

/** Imports of every kind: of values, of types, `import()`, `export from`. */
function importsOf(path: string, text: string): string[] {
  const found = text.matchAll(/\b(?:from|import)\s*\(?\s*'(\.[^']+\.tsx?)'/g)
  return [...new Set([...found].map(([, target = '']) => join(dirname(path), target)))]
}

/** Groups of files each of which leads to each other one (Tarjan). */
function circles(imports: ReadonlyMap<string, readonly string[]>): string[][] {
  const numbers = new Map<string, number>()
  const open: string[] = []
  const found: string[][] = []
  const visit = (file: string): number => {
    const number = numbers.size
    numbers.set(file, number)
    open.push(file)
    let low = number
    for (const target of imports.get(file) ?? []) {
      if (!numbers.has(target)) low = Math.min(low, visit(target))
      else if (open.includes(target)) low = Math.min(low, numbers.get(target) ?? low)
    }
    if (low === number) {
      const group = open.splice(open.indexOf(file))
      if (group.length > 1) found.push(group.sort())
    }
    return low
  }
  for (const file of imports.keys()) if (!numbers.has(file)) visit(file)
  return found
}

/** The sources of the package, or those of the console, which shares none with them. */
export function sources(folder: 'src' | 'console' = 'src'): Map<string, string> {
  const root = fileURLToPath(new URL(`../${folder}/`, import.meta.url))
  const paths = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter((path) =>
    /\.tsx?$/.test(path),
  )
  return new Map(paths.sort().map((path) => [path, readFileSync(join(root, path), 'utf8')]))
}

if (argv[1] === fileURLToPath(import.meta.url)) {
  const broken = [...brokenRules(sources()), ...brokenRules(sources('console'))]
  for (const line of broken) console.error(line)
  exit(broken.length === 0 ? 0 : 1)
}
