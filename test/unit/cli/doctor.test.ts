import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { run } from '../../support/cli.ts'

interface Finding {
  readonly kind: string
  readonly name: string
  readonly detail: string
}

test('doctor says what each optional package is for', async () => {
  const { stdout } = await run(['doctor', '--json'], { PATH: '/nowhere' })
  const found: readonly Finding[] = JSON.parse(stdout).findings
  const packages = found.filter(({ kind }) => kind === 'package')
  const { peerDependencies } = JSON.parse(
    readFileSync(new URL('../../../package.json', import.meta.url), 'utf8'),
  )
  expect(packages.map(({ name }) => name).sort()).toEqual(Object.keys(peerDependencies).sort())
  for (const { name, detail } of packages) {
    expect([name, detail]).toEqual([name, expect.stringMatching(/(?:^|, )for \S/)])
    expect([name, detail]).toEqual([name, expect.not.stringContaining('for an option')])
  }
})
