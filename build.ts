import { execFileSync } from 'node:child_process'
import { chmodSync, copyFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import standaloneCode from 'ajv/dist/standalone/index.js'
import { ajv } from './src/config/options-check.ts'
import * as schemas from './src/config/options-schema.ts'

/*
 * Makes `dist/`: tsc, then the options schemas are turned into what is cheap to load. Ajv and TypeBox take 100 ms
 * to load, more than Fastify itself; what they produce takes none.
 */

const dist = (name: string) => new URL(`dist/${name}`, import.meta.url)

rmSync(dist(''), { recursive: true, force: true })
const tsc = createRequire(import.meta.url)
  .resolve('typescript/package.json')
  .replace('package.json', 'bin/tsc')
execFileSync(process.execPath, [tsc, '-p', 'tsconfig.build.json'], { stdio: 'inherit' })

copyFileSync(new URL('src/runtime/kernel.wasm', import.meta.url), dist('runtime/kernel.wasm'))
writeFileSync(dist('config/options-schema.js'), schemasAsData())
writeFileSync(dist('config/options-check.js'), checksAsCode())
writeFileSync(dist('schema.json'), `${JSON.stringify(publishedSchema(), null, 2)}\n`)
chmodSync(dist('cli.js'), 0o755)

function schemasAsData(): string {
  return Object.entries(schemas)
    .map(([name, schema]) => `export const ${name} = ${JSON.stringify(schema)}\n`)
    .join('')
}

function checksAsCode(): string {
  const ids = {
    isLoadOptions: 'isLoadOptions',
    isServerOptions: 'isServerOptions',
    isWasmServeOptions: 'isWasmServeOptions',
  }
  // Ajv's standalone code is an ES module that still calls `require` for its run-time helpers.
  return `import { createRequire } from 'node:module'
import { hostProblem } from '../outbound/allowed-hosts.js'
const require = createRequire(import.meta.url)
${standaloneCode.default(ajv, ids)}
`
}

/** The schema for editors: plain JSON Schema, where a plug-in is a path, a contract a name, and nothing a function. */
function publishedSchema(): object {
  const json = JSON.stringify(schemas.serverSchema, (_key, value) => {
    const { pluginSource, hostFunctions, callHook, allowedHost, threadCount, nameOrContract, ...plain } =
      value ?? {}
    if (callHook) return undefined
    if (pluginSource || hostFunctions || allowedHost) return { ...plain, type: 'string', minLength: 1 }
    if (threadCount)
      return { ...plain, anyOf: [{ type: 'integer', minimum: 0, maximum: 256 }, { const: 'auto' }] }
    return nameOrContract ? { ...plain, enum: nameOrContract } : value
  })
  return {
    $schema: 'http://json-schema.org/draft-07/schema#',
    title: 'Options of wasm-serve',
    ...JSON.parse(json),
  }
}
