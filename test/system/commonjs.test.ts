import { execFile } from 'node:child_process'
import { copyFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test, vi } from 'vitest'
import { describeWith } from '../support/tools.ts'
import { ROOT, userPackage } from '../support/user-package.ts'

vi.setConfig({ testTimeout: 240_000 }) // TypeScript reads all of Fastify

const STRICT = {
  target: 'es2022',
  lib: ['es2023', 'dom'], // for wasm-serve/extism
  types: ['node'],
  strict: true,
  noUncheckedIndexedAccess: true,
  exactOptionalPropertyTypes: true,
  skipLibCheck: false,
}

const folder = userPackage()
copyFileSync(join(ROOT, 'test/user/required.cts'), join(folder, 'required.cts'))

const CURRENT = [process.execPath, join(ROOT, 'node_modules/typescript/bin/tsc')]
const OLD = ['npx', '-y', '-p', 'typescript@5.7', 'tsc']

/** @returns what the compiler says. */
async function compile([command = '', ...args]: string[], options: object, name: string): Promise<string> {
  const compilerOptions = { ...STRICT, ...options, outDir: 'out' }
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: [name] }))
  return promisify(execFile)(command, [...args, '-p', '.'], { cwd: folder }).then(
    ({ stdout }) => stdout,
    ({ stdout, message }) => stdout || message,
  )
}

async function run(name: string): Promise<string> {
  return (await promisify(execFile)(process.execPath, [`out/${name}`], { cwd: folder })).stdout
}

const PRINTED = 'mounted 200\ntested 200\nextism string true\nsame true\n'

test.each([
  'nodenext',
  'node16',
])('a CommonJS program compiles with the current TypeScript and module %s, and runs', async (module) => {
  expect(await compile(CURRENT, { module }, 'required.cts')).toBe('')
  expect(await run('required.cjs')).toBe(PRINTED)
})

describeWith(['npx with typescript@5.7'], () => {
  test.each([
    'nodenext',
    'node16',
  ])('a CommonJS program compiles with TypeScript 5.7 and module %s, and runs', async (module) => {
    expect(await compile(OLD, { module }, 'required.cts')).toBe('')
    expect(await run('required.cjs')).toBe(PRINTED)
  })

  test('so does a program without package exports', async () => {
    writeFileSync(
      join(folder, 'old.ts'),
      `import { createServer } from 'wasm-serve'
import createPlugin from 'wasm-serve/extism'
import { testPlugin } from 'wasm-serve/testing'
console.log(typeof createServer, typeof createPlugin, typeof testPlugin)
`,
    )
    writeFileSync(join(folder, 'package.json'), '{}')
    const options = {
      module: 'commonjs',
      moduleResolution: 'node10',
      esModuleInterop: true,
      skipLibCheck: true,
    }
    expect(await compile(OLD, options, 'old.ts')).toBe('')
    expect(await run('old.js')).toBe('function function function\n')
  })
})
