import { writeFileSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { join } from 'node:path'
import { build, type Plugin } from 'rolldown'
import { folderOf, type PackedPackage } from '../src/platform/packed-packages.ts'
import { bundle, COMMONJS, file, MINIFY, read, replacing } from './bundle.ts'
import { notices } from './notices.ts'

/** What Fastify loads only for features that the command does not use, or not at a start. They are not packed. */
const OUTSIDE = new Set([
  '@fastify/ajv-compiler',
  '@fastify/fast-json-stringify-compiler',
  'light-my-request',
])

const ENTRY = file('scripts/packed-packages.cjs')

/**
 * Makes what `src/platform/packed-packages.ts` describes. pino's transports cannot start from it: they are programs of threads, with
 * files of their own.
 */
export async function bundlePackages(): Promise<void> {
  await bundle('dist', { 'packed-packages': 'src/platform/packed-packages.ts' }, { codeSplitting: false })
  const { output } = await build({
    input: ENTRY,
    cwd: file('.'),
    platform: 'node',
    external: isBuiltin,
    write: false,
    plugins: [
      { name: 'entry', resolveId: (id) => (id === ENTRY ? id : null) },
      replacing({ [ENTRY]: () => `module.exports = {${[...COMMONJS].map(asProperty).join()}}` }),
      outside,
    ],
    output: { format: 'cjs', codeSplitting: false, comments: false, minify: MINIFY },
  })
  const [{ code, moduleIds }] = output
  const folders = [...new Set(moduleIds.flatMap((id) => PACKAGE_FOLDER.exec(id)?.[0] ?? []))]
  writeFileSync(file('dist/packed-packages.cjs'), `${notices(folders)}\n${code}`)
  writeFileSync(file('dist/packed-packages.json'), JSON.stringify(packagesIn(folders)))
}

const PACKAGE_FOLDER = /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+/

const asProperty = (name: string) => `${JSON.stringify(name)}: () => require(${JSON.stringify(name)})`

const outside: Plugin = {
  name: 'outside',
  resolveId: (id) => (OUTSIDE.has(id) ? `\0${id}` : null),
  load: (id) =>
    id.startsWith('\0') && OUTSIDE.has(id.slice(1))
      ? {
          code: `module.exports = require('node:module').createRequire(require.resolve('fastify'))(${JSON.stringify(id.slice(1))})`,
          moduleType: 'js',
        }
      : null,
}

/** These packages, each with those of them that it requires; first the project itself. */
function packagesIn(folders: readonly string[]): PackedPackage[] {
  const all = [file('.'), ...folders]
  return all.map((folder) => {
    const { name, version, dependencies = {} } = JSON.parse(read(join(folder, 'package.json')))
    const places = Object.keys(dependencies).map((required) => all.indexOf(folderOf(required, folder) ?? ''))
    return { name, version, requires: places.filter((place) => place > 0) }
  })
}
