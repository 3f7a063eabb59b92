import { execFile } from 'node:child_process'
import { copyFileSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { documentPages, pageSnippets } from '../support/pages.ts'
import { ROOT, userPackage } from '../support/user-package.ts'

const STRICT = {
  target: 'es2022',
  lib: ['es2023'], // no DOM
  module: 'nodenext',
  types: ['node'],
  strict: true,
  noUncheckedIndexedAccess: true,
  exactOptionalPropertyTypes: true,
  skipLibCheck: false,
  checkJs: true,
  allowJs: true,
  noEmit: true,
}

const EXTISM = 'wasm-serve/extism'

/** Those with programs of users: the TypeScript of the other one is a test in this repository. */
const PAGES = documentPages().filter((page) => page !== 'docs/contribute/first-change.md')

const folder = userPackage()

const TIMEOUT_MS = 120_000 // TypeScript reads all of Fastify

test(
  'strict TypeScript takes the types of the package, the snippets of the pages and the examples',
  { timeout: TIMEOUT_MS },
  async () => {
    const examples = readdirSync(join(ROOT, 'examples')).filter((name) => name.endsWith('.mjs'))
    expect(examples.length).toBeGreaterThan(3)
    for (const name of examples) copyFileSync(join(ROOT, 'examples', name), join(folder, name))
    copyFileSync(join(ROOT, 'test/user/typed.ts'), join(folder, 'typed.ts'))
    // The snippets for `wasm-serve/extism` need the types of the DOM.
    const snippets = PAGES.flatMap(pageSnippets).filter((code) => !code.includes(EXTISM))
    expect(snippets.length).toBeGreaterThan(5)
    for (const [i, code] of snippets.entries()) writeFileSync(join(folder, `page-${i}.ts`), code)
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions: STRICT }))
    expect(await compile()).toBe('')
  },
)

test(
  'what is written for the SDK compiles, strictly, with only the import changed',
  { timeout: TIMEOUT_MS },
  async () => {
    const snippets = PAGES.flatMap(pageSnippets).filter((code) => code.includes(EXTISM))
    expect(snippets.length).toBeGreaterThan(5)
    const files = snippets.flatMap((code, i) => {
      writeFileSync(join(folder, `extism-${i}.ts`), code)
      writeFileSync(join(folder, `sdk-${i}.ts`), code.replaceAll(EXTISM, '@extism/extism'))
      return [`extism-${i}.ts`, `sdk-${i}.ts`]
    })
    const compileWith = async (more: object, chosen: readonly string[]) => {
      const compilerOptions = { ...STRICT, lib: ['es2023', 'dom'], ...more }
      writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: chosen }))
      return compile()
    }
    const isOurs = (name: string) => name.startsWith('extism-')
    expect(await compileWith({}, files.filter(isOurs))).toBe('')
    // Of the SDK's own types some do not compile.
    const ofSdk = files.filter((name) => !isOurs(name))
    expect(await compileWith({ skipLibCheck: true }, ofSdk)).toBe('')
  },
)

test('the published types of options are those of the schemas', { timeout: TIMEOUT_MS }, async () => {
  const names = ['RouteData', 'WasmServeData', 'ServerData', 'LoadData'].flatMap((name) => [
    name,
    `Checked${name}`,
  ])
  const lines = names.map((name) => `export const ${name}: Same<Source.${name}, Published.${name}> = true`)
  writeFileSync(
    join(folder, 'options.ts'),
    `import type * as Source from '${join(ROOT, 'src/options/options-schema.ts')}'
import type * as Published from '${join(folder, 'node_modules/wasm-serve/dist/options/options-schema.d.ts')}'
type Same<A, B> = [A] extends [B] ? ([B] extends [A] ? true : 'the source lacks something') : 'the source has more'
${lines.join('\n')}
`,
  )
  const compilerOptions = { ...STRICT, allowImportingTsExtensions: true, skipLibCheck: true }
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['options.ts'] }))
  expect(await compile()).toBe('')
})

/** @returns what the compiler says. */
async function compile(): Promise<string> {
  const tsc = join(ROOT, 'node_modules/typescript/bin/tsc')
  const run = promisify(execFile)(process.execPath, [tsc, '-p', '.'], { cwd: folder })
  return run.then(
    ({ stdout }) => stdout,
    ({ stdout, message }) => stdout || message,
  )
}
