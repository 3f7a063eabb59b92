import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build, type OutputOptions, type Plugin, type PluginContext } from 'rolldown'
import { esmExternalRequirePlugin } from 'rolldown/plugins'
import { notices } from './notices.ts'

/** A path of the package. */
export const file = (path: string) => fileURLToPath(new URL(`../${path}`, import.meta.url))

/** Replacements of modules, by path. */
export type Replacements = Readonly<Record<string, () => string>>

/**
 * Makes the files from which worker threads and the watchdog are started: Node 20 starts no thread from TypeScript.
 * Tests that run the sources need these only.
 *
 * One file each. CommonJS starts some milliseconds sooner on Node 20; the SDK is loaded by an `await`, which CommonJS
 * does not have.
 */
export async function bundleThreads(): Promise<void> {
  mkdirSync(file('dist'), { recursive: true })
  copyFileSync(file('src/module/kernel.wasm'), file('dist/kernel.wasm'))
  copyFileSync(file('src/contract/json-scan.wasm'), file('dist/json-scan.wasm'))
  const cjs: OutputOptions = { format: 'cjs', entryFileNames: '[name].cjs', codeSplitting: false }
  await Promise.all([
    bundle('dist', { 'kernel-thread': 'src/engine/workers/kernel-thread.ts' }, cjs),
    bundle(
      'lib',
      { 'extism-thread': 'src/extism/extism-thread.ts' },
      { ...cjs, minify: MINIFY },
      EMBEDDED,
      true,
    ),
    bundle('dist', { 'load-thread': 'src/plugin/load-thread.ts' }, cjs),
    bundle('dist', { 'config-thread': 'src/options/config-thread.ts' }, cjs),
    bundle('dist', { 'kernel-process': 'src/engine/subprocess/kernel-process.ts' }, cjs, EMBEDDED, true),
    bundle('dist', { 'watchdog-thread': 'src/engine/watchdog-thread.ts' }, cjs),
    bundle('dist', { 'sdk-thread': 'src/engine/workers/sdk-thread.ts' }, { codeSplitting: false }),
  ])
}

/** What is published is minified. Names of functions stay as they are, for stacks. */
export const MINIFY = {
  compress: true,
  mangle: { toplevel: true, keepNames: true },
  codegen: { removeWhitespace: true },
} as const

/** Files as parts of a program: a guest process may read no file, and a program that a user bundles has no others. */
const EMBEDDED: Replacements = {
  [file('src/module/kernel-wasm.ts')]: () => bytesAsCode('KERNEL_WASM', 'src/module/kernel.wasm'),
  [file('src/extism/deferred-input-wasm.ts')]: () =>
    bytesAsCode('DEFERRED_INPUT_WASM', 'src/extism/deferred-input.wasm'),
  [file('src/extism/thread-script.ts')]: () =>
    `export const THREAD_SCRIPT = ${JSON.stringify(read('lib/extism-thread.cjs'))}`,
}

function bytesAsCode(name: string, path: string): string {
  return `export const ${name} = Buffer.from('${readFileSync(file(path)).toString('base64')}', 'base64')`
}

/**
 * Makes `dist/extism.js`, which users bundle into programs of their own: it needs no other file, no package, and not its own
 * URL. `dist/extism.cjs` is for `require` in such programs: bundlers do not know the export `module.exports`.
 *
 * {@link bundleThreads} made its thread.
 */
export async function bundleExtism(): Promise<void> {
  await build({
    input: { extism: 'src/extism.ts' },
    cwd: file('.'),
    platform: 'node',
    plugins: [esmExternalRequirePlugin({ external: [/^node:/] }), replacing(EMBEDDED), withoutErrorTexts],
    output: {
      dir: 'dist',
      format: 'es',
      entryFileNames: '[name].js',
      codeSplitting: false,
      comments: { jsdoc: false },
      minify: MINIFY,
      postBanner: noticesOf('@fastify/error'),
    },
  })
  writeFileSync(
    file('dist/extism.cjs'),
    "const required = require('./extism.js')\nmodule.exports = required['module.exports'] ?? required\n",
  )
}

const CONSOLE = 'console'

/**
 * Makes `dist/console`, which browsers load: all in one script, and one style sheet. The packages in them are no
 * run-time dependencies.
 */
export async function bundleConsole(): Promise<void> {
  await build({
    input: { main: `${CONSOLE}/main.tsx` },
    cwd: file('.'),
    platform: 'browser',
    tsconfig: file(`${CONSOLE}/tsconfig.json`),
    output: {
      dir: 'dist/console',
      format: 'es',
      minify: true,
      comments: false,
      postBanner: noticesOf('preact', 'uplot'),
    },
  })
  const styles = read('node_modules/uplot/dist/uPlot.min.css') + read(`${CONSOLE}/console.css`)
  writeFileSync(file('dist/console/console.css'), styles)
  for (const name of ['index.html', 'icon.svg'])
    copyFileSync(file(`${CONSOLE}/${name}`), file(`dist/console/${name}`))
}

const noticesOf = (...packages: string[]) => notices(packages.map((name) => file(`node_modules/${name}`)))

/** A file of the project. */
export const read = (path: string) => readFileSync(resolve(file('.'), path), 'utf8')

/**
 * Packages in CommonJS that every start loads. Node.js parses one that is imported to find its exports, and V8 optimizes that
 * parser meanwhile: 40 to 70 ms of CPU on Node.js 20.
 */
export const COMMONJS: ReadonlySet<string> = new Set([
  '@fastify/error',
  'close-with-grace',
  'fastify',
  'fastify-plugin',
  'find-my-way',
  'pino',
])

const isRequired = (name: string) =>
  COMMONJS.has(name) || (name.startsWith('node:') && name !== 'node:module')

/**
 * Loads these, and modules of Node.js, with `require`: an import of one of Node.js calls all its getters, some of which load
 * others. That of `node:http` loads undici (38 ms on Node.js 24), that of `node:process` opens the three standard streams.
 */
const requireExternals: Plugin = {
  name: 'require',
  resolveId: (id, importer) =>
    importer && id.endsWith('/packed-packages.ts') ? { id: PACKED, external: true } : null,
  renderChunk(code) {
    const edits = this.parse(code).body.flatMap((statement) =>
      statement.type === 'ImportDeclaration' && isRequired(statement.source.value) ? [statement] : [],
    )
    if (edits.length === 0) return null
    const { text, end } = edits.reduce(
      ({ text, end }, edit) => ({
        text: text + code.slice(end, edit.start) + requiring(edit),
        end: edit.end,
      }),
      { text: '', end: 0 },
    )
    return `import { requireExternal } from '${PACKED}'\n${text}${code.slice(end)}`
  },
}

/** It is bundled by itself: other files find it by this name. */
const PACKED = './packed-packages.js'

type ImportDeclaration = Extract<
  ReturnType<PluginContext['parse']>['body'][number],
  { type: 'ImportDeclaration' }
>

function requiring({ specifiers, source }: ImportDeclaration): string {
  const loaded = `requireExternal(${JSON.stringify(source.value)})`
  const named: string[] = []
  const whole: string[] = []
  for (const specifier of specifiers) {
    const { name } = specifier.local
    if (specifier.type !== 'ImportSpecifier') whole.push(name)
    else named.push(`${JSON.stringify(nameOf(specifier.imported))}: ${name}`)
  }
  if (specifiers.length === 0) return `${loaded};`
  const declared = [...whole, ...(named.length === 0 ? [] : [`{ ${named.join(', ')} }`])]
  return `const ${declared.map((each) => `${each} = ${loaded}`).join(', ')};`
}

type ImportSpecifier = Extract<ImportDeclaration['specifiers'][number], { type: 'ImportSpecifier' }>

const nameOf = (imported: ImportSpecifier['imported']) =>
  imported.type === 'Literal' ? imported.value : imported.name

/**
 * Bundles modules of `src/` into one folder, where they find their neighbours, and the package's root one folder up.
 * Packages stay outside.
 *
 * @param isWhole - Whether they do not.
 */
export async function bundle(
  folder: string,
  input: Record<string, string>,
  output: OutputOptions = {},
  replacements: Replacements = {},
  isWhole = false,
): Promise<void> {
  const isPublishedModule = folder === 'dist' && output.format !== 'cjs' && !isWhole
  const isPackage = (id: string) => !id.startsWith('.') && !id.startsWith('src/')
  await build({
    input,
    cwd: file('.'),
    platform: 'node',
    preserveEntrySignatures: 'allow-extension', // `codeSplitting` needs it
    external: (id, _importer, isResolved) =>
      isWhole ? id.startsWith('node:') : !isResolved && isPackage(id),
    plugins: [replacing(replacements), withoutErrorTexts, isPublishedModule && requireExternals],
    output: {
      dir: folder,
      format: 'es',
      entryFileNames: '[name].js',
      chunkFileNames: '[name].js',
      comments: { jsdoc: false },
      minify: folder === 'dist' ? MINIFY : false,
      ...output,
    },
  })
}

/** What is only for docs/reference/errors.md. */
const withoutErrorTexts: Plugin = {
  name: 'error texts',
  transform: {
    filter: { id: /src\/errors\/\w+\.ts$/ },
    handler: (code) => code.replace(ERROR_TEXT, ''),
  },
}

/** A property with a string. */
const ERROR_TEXT = /\s*\b(?:site|cause|remedy):\s*(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"),/g

/** Loads other code for some modules. */
export function replacing(replacements: Replacements): Plugin {
  return {
    name: 'replacements',
    load: (id) => {
      const code = replacements[id]?.()
      return code === undefined ? null : { code, moduleType: 'js' }
    },
  }
}
