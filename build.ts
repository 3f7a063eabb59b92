import { execFileSync } from 'node:child_process'
import { chmodSync, copyFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import type { Ajv } from 'ajv'
import standaloneCode from 'ajv/dist/standalone/index.js'
import { build } from 'rolldown'
import * as configFile from './src/config/config-file-check.ts'
import { configFileSchema, type Schema } from './src/config/config-file-schema.ts'
import * as options from './src/config/options-check.ts'
import * as schemas from './src/config/options-schema.ts'

/*
 * Makes `lib/` and then `dist/`.
 *
 * `lib/` has a module for each source file, as tsc makes it; tests and benches of parts load from there. In it the
 * options schemas are turned into what is cheap to load: Ajv and TypeBox take 100 ms to load, more than Fastify itself;
 * what they produce takes none.
 *
 * `dist/` is what is published: the modules of `lib/` in few files, for hundreds take a while to find and to link, and
 * the types. Packages stay outside, and what is loaded only if it is needed stays so.
 */

const VARIABLE = '\\$\\{'
const SIZE_OR_VARIABLE = `^\\d+(\\.\\d+)?\\s*[a-zA-Z]*$|${VARIABLE}`

const file = (path: string) => fileURLToPath(new URL(path, import.meta.url))

rmSync(file('lib'), { recursive: true, force: true })
rmSync(file('dist'), { recursive: true, force: true })
const tsc = createRequire(import.meta.url)
  .resolve('typescript/package.json')
  .replace('package.json', 'bin/tsc')
for (const project of ['tsconfig.build.json', 'tsconfig.types.json'])
  execFileSync(process.execPath, [tsc, '-p', project], { stdio: 'inherit' })

writeFileSync(file('lib/config/options-schema.js'), schemasAsData())
writeFileSync(
  file('lib/config/options-check.js'),
  checksAsCode(options.ajv, ['isLoadOptions', 'isServerOptions', 'isWasmServeOptions']),
)
writeFileSync(file('lib/config/config-file-check.js'), checksAsCode(configFile.ajv, ['isConfigFile']))

await bundle('dist', {
  cli: './lib/cli.js',
  index: './lib/index.js',
  testing: './lib/testing.js',
  probe: './lib/commands/bench/probe.js',
  'sdk-thread': './lib/engine/workers/sdk-thread.js',
})
await bundle('dist/console', { main: './lib/admin/console/main.js' })
await bundle('dist', { 'kernel-thread': './lib/engine/workers/kernel-thread.js' }, 'cjs')
await bundle('dist', { 'watchdog-thread': './lib/engine/watchdog-thread.js' }, 'cjs')

for (const folder of ['lib/runtime', 'dist'])
  copyFileSync(file('src/runtime/kernel.wasm'), file(`${folder}/kernel.wasm`))
for (const name of ['index.html', 'console.css', 'icon.svg'])
  copyFileSync(file(`src/admin/console/${name}`), file(`dist/console/${name}`))
writeFileSync(file('dist/schema.json'), `${JSON.stringify(publishedSchema(), null, 2)}\n`)
chmodSync(file('dist/cli.js'), 0o755)

/** All into one folder: modules find what is beside them, and the package's root one folder up. */
async function bundle(
  folder: string,
  input: Record<string, string>,
  format: 'es' | 'cjs' = 'es',
): Promise<void> {
  await build({
    input,
    cwd: file('.'),
    platform: 'node',
    external: (id, _importer, isResolved) => !isResolved && !id.startsWith('.'),
    output: {
      dir: folder,
      format,
      entryFileNames: format === 'cjs' ? '[name].cjs' : '[name].js',
      chunkFileNames: '[name].js',
      comments: { jsdoc: false },
    },
  })
}

function schemasAsData(): string {
  return Object.entries(schemas)
    .map(([name, schema]) => `export const ${name} = ${JSON.stringify(schema)}\n`)
    .join('')
}

function checksAsCode(ajv: Ajv, names: readonly string[]): string {
  const ids = Object.fromEntries(names.map((name) => [name, name]))
  // Ajv's standalone code is an ES module that still calls `require` for its run-time helpers.
  return `import { createRequire } from 'node:module'
import { hostProblem } from '../outbound/allowed-hosts.js'
const require = createRequire(import.meta.url)
${standaloneCode.default(ajv, ids)}
`
}

/** The schema of config files for editors: plain JSON Schema, where what is not any text may be text with a variable. */
function publishedSchema(): object {
  return {
    $schema: 'http://json-schema.org/draft-07/schema#',
    title: 'Configuration of wasm-serve',
    ...publish(configFileSchema),
  }
}

function publish({
  holds: _holds,
  hint: _hint,
  secret: _secret,
  allowedHost: _host,
  ...schema
}: Schema): object {
  const { description, properties, patternProperties, additionalProperties, items } = schema
  const choices = choicesOf(schema)
  if (choices) {
    const { default: value } = schema
    const pattern = schema.type === 'integer' ? SIZE_OR_VARIABLE : VARIABLE
    return { description, default: value, anyOf: [...choices, { type: 'string', pattern }] }
  }
  return {
    ...schema,
    ...(properties && { properties: publishEach(properties) }),
    ...(patternProperties && { patternProperties: publishEach(patternProperties) }),
    ...(typeof additionalProperties === 'object' && { additionalProperties: publish(additionalProperties) }),
    ...(items && { items: publish(items) }),
  }
}

/** Of what is not any text; undefined if it is. */
function choicesOf({ description: _, default: _default, ...schema }: Schema): readonly object[] | undefined {
  if (schema.threadCount) return [{ type: 'integer', minimum: 0, maximum: 256 }, { const: 'auto' }]
  if (schema.anyOf) return schema.anyOf
  const isNarrow = schema.type === 'integer' || schema.type === 'boolean' || schema.enum || schema.pattern
  return isNarrow ? [schema] : undefined
}

function publishEach(schemas: Readonly<Record<string, Schema>>): object {
  return Object.fromEntries(Object.entries(schemas).map(([name, schema]) => [name, publish(schema)]))
}
