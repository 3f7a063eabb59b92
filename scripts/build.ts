import { execFile } from 'node:child_process'
import { chmodSync, copyFileSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import * as schemas from '../src/options/options-schema.ts'
import { bundle, bundleConsole, bundleExtism, bundleThreads, file, type Replacements } from './bundle.ts'
import { startChunks } from './chunks.ts'
import { publishedSchema } from './config-schema.ts'
import { optionTypes } from './option-types.ts'
import { bundlePackages } from './packed.ts'

/*
 * Makes `dist/`, which is published, and `lib/`, which is not.
 *
 * `dist/` has few files, because hundreds take a while to find and to link. Packages stay external, and modules that
 * are loaded on demand stay separate. In both folders the options schemas are data: TypeBox takes longer to load than
 * Fastify itself.
 *
 * `lib/` has a module for each source file: benches, and tests with their own process, load parts from there.
 */

/** Replacements of modules that take long to load, by path. */
const FROZEN: Replacements = {
  [file('src/options/options-schema.ts')]: schemasAsData,
}

/** The entry points: files that users of the package load or run. `extism.js` is one by itself. */
const DOORS = {
  cli: 'src/cli.ts',
  index: 'src/index.ts',
  testing: 'src/testing.ts',
  probe: 'src/cli/bench/probe.ts',
  'serving-process': 'src/cli/serving-process.ts',
}

/** The export of an ES module that `require` returns. */
const REQUIRED = 'module.exports'

/** Exports of types in a declaration file. */
const TYPE_EXPORTS = /^export type \{(.*)\} from '(.*)'/gm
const RELATIVE_IMPORT = /(?:from|import) ?\(?['"](\.[^'"]+)['"]/g

for (const folder of ['lib', 'dist']) rmSync(file(folder), { recursive: true, force: true })
await Promise.all([
  writeTypes(),
  bundleThreads().then(bundleExtism),
  bundle('dist', DOORS, { codeSplitting: startChunks() }, FROZEN),
  bundlePackages(),
  bundleConsole(),
  bundle('lib', allSources(), { preserveModules: true, preserveModulesRoot: 'src' }, FROZEN),
])
copyFileSync(file('src/module/kernel.wasm'), file('lib/module/kernel.wasm'))
copyFileSync(file('src/contract/json-scan.wasm'), file('lib/contract/json-scan.wasm'))
copyFileSync(file('src/extism/deferred-input.wasm'), file('lib/extism/deferred-input.wasm'))
writeFileSync(
  file('dist/options/options-schema.d.ts'),
  optionTypes({
    Route: schemas.routeSchema,
    WasmServe: schemas.wasmServeSchema,
    Server: schemas.serverSchema,
    Load: schemas.loadSchema,
  }),
)
const modules = ['index', 'testing', 'extism']
removePrivateTypes(modules)
await Promise.all(modules.map(writeRequiredTypes))
writeFileSync(file('dist/schema.json'), `${JSON.stringify(publishedSchema())}\n`)
chmodSync(file('dist/cli.js'), 0o755)

async function writeTypes(): Promise<void> {
  const tsc = createRequire(import.meta.url)
    .resolve('typescript/package.json')
    .replace('package.json', 'bin/tsc')
  await promisify(execFile)(process.execPath, [tsc, '-p', 'tsconfig.types.json'], { cwd: file('.') })
}

/** Removes declarations that no public one imports: two thirds of all. */
function removePrivateTypes(entries: readonly string[]): void {
  const reached = new Set<string>()
  const visit = (path: string): void => {
    if (reached.has(path)) return
    reached.add(path)
    for (const [, specifier = ''] of readFileSync(path, 'utf8').matchAll(RELATIVE_IMPORT))
      visit(join(dirname(path), specifier.replace(/\.(ts|js)$/, '.d.ts')))
  }
  for (const entry of entries) visit(file(`dist/${entry}.d.ts`))
  for (const path of readdirSync(file('dist'), { recursive: true, encoding: 'utf8' }))
    if (path.endsWith('.d.ts') && !reached.has(file(`dist/${path}`))) rmSync(file(`dist/${path}`))
}

/**
 * The types of a module for CommonJS, which cannot take those of an ES module before TypeScript 5.8: declarations that name
 * them. At run time, `require` loads the ES module, or `extism.cjs`.
 */
async function writeRequiredTypes(name: string): Promise<void> {
  const values = Object.keys(await import(file(`dist/${name}.js`)))
  const lines = values.includes(REQUIRED)
    ? requiredAsWhole(name)
    : [
        `export type * from ${asModule(`./${name}.js`)}`,
        ...values.map((value) => `export declare const ${value}: typeof esm.${value}`),
      ]
  const all = [`import type * as esm from ${asModule(`./${name}.js`)}`, ...lines]
  writeFileSync(file(`dist/${name}.d.cts`), `${all.join('\n')}\n`)
}

/** From TypeScript 5.8 on, `esm` is that export; before, it is a property. */
function requiredAsWhole(name: string): string[] {
  const lists = readFileSync(file(`dist/${name}.d.ts`), 'utf8').matchAll(TYPE_EXPORTS)
  const imports: string[] = []
  const types: string[] = []
  for (const [, list = '', path = ''] of lists) {
    const from = `from${imports.length}`
    imports.push(`import type * as ${from} from ${asModule(path.replace(/\.ts$/, '.js'))}`)
    for (const [, type, alias = type] of list.matchAll(/(\w+)(?: as (\w+))?/g))
      types.push(`  type ${alias} = ${from}.${type}`)
  }
  return [
    ...imports,
    'type Esm = typeof esm',
    `declare const required: Esm extends { '${REQUIRED}': infer Required } ? Required : Esm`,
    `declare namespace required {\n${types.join('\n')}\n}`,
    'export = required',
  ]
}

function asModule(path: string): string {
  return `'${path}' with { 'resolution-mode': 'import' }`
}

/** Every source file by its path without the ending. */
function allSources(): Record<string, string> {
  const paths = readdirSync(file('src'), { recursive: true, encoding: 'utf8' })
  const names = paths.filter((path) => path.endsWith('.ts')).map((path) => path.slice(0, -'.ts'.length))
  return Object.fromEntries(names.map((name) => [name, `src/${name}.ts`]))
}

function schemasAsData(): string {
  return Object.entries(schemas)
    .map(([name, schema]) => `export const ${name} = ${JSON.stringify(schema)}\n`)
    .join('')
}
