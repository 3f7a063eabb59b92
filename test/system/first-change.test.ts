import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../support/admin-api.ts'

/*
 * docs/contribute/first-change.md, followed in a copy of the sources: each diff is applied, the TypeScript is a file of its name, and
 * each line of a shell block runs. Where the page says that the test fails, it has to.
 */

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const PAGE = 'docs/contribute/first-change.md'

/** What is not copied: it is large, or made from the rest. */
const LEFT_OUT = ['.git', '.ci', 'dist', 'lib', 'node_modules']

function copySources(): string {
  const folder = temporaryFolder()
  for (const name of readdirSync(ROOT))
    if (!LEFT_OUT.includes(name))
      cpSync(join(ROOT, name), join(folder, name), {
        recursive: true,
        filter: (path) =>
          !path.includes('/target/') && !path.includes('/results/') && !path.includes('/node_modules'),
      })
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
  return folder
}

function run(cwd: string, command: string, args: readonly string[], input = '') {
  const { TMPDIR: _, ...env } = process.env
  return spawnSync(command, args, { cwd, input, encoding: 'utf8', env })
}

test('a stranger who follows the page adds an option in two files', () => {
  const page = readFileSync(join(ROOT, PAGE), 'utf8')
  const [, path = ''] = /Write `(.*)`:/.exec(page) ?? []
  const folder = copySources()
  const changed: string[] = []
  for (const [, above = '', language = '', code = ''] of page.matchAll(
    /([^\n]*)\n\n```(\w+)\n(.*?)^```$/gms,
  )) {
    if (language === 'diff') {
      changed.push(...[...code.matchAll(/^\+\+\+ b\/(.*)$/gm)].map(([, file = '']) => file))
      const { status, stdout, stderr } = run(folder, 'patch', ['--strip=1', '--fuzz=0'], code)
      expect(status, `${code}\n${stdout}${stderr}`).toBe(0)
    } else if (language === 'ts') {
      mkdirSync(dirname(join(folder, path)), { recursive: true })
      writeFileSync(join(folder, path), code)
    } else
      for (const line of code.trim().split('\n')) {
        const { status, stdout, stderr } = run(folder, 'bash', ['-c', line])
        expect(status === 0, `${line}\n${stdout}${stderr}`).toBe(!above.startsWith('The test fails'))
      }
  }
  expect(changed).toEqual(['src/options/schema/route.ts', 'src/options/resolved-route.ts'])
  const reference = readFileSync(join(folder, 'docs/reference/options.md'), 'utf8')
  expect(reference).toContain('`--max-age-s`')
})
