import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { describeWith } from '../support/tools.ts'
import { ROOT } from '../support/user-package.ts'

describeWith(['promtool'], () => {
  test('Prometheus takes the rules', () => {
    const path = join(ROOT, 'deploy/prometheus/alerts.yaml')
    const rules = parse(readFileSync(path, 'utf8')).groups.flatMap(({ rules }: { rules: object[] }) => rules)
    const said = execFileSync('promtool', ['check', 'rules', path], { encoding: 'utf8' })
    expect(said).toContain(`SUCCESS: ${rules.length} rules found`)
  })
})
