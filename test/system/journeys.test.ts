import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

/* The figures of scripts/growth.md are those of Node.js 20: a guest that has the kernel merged into it takes other ways. */

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

test.skipIf(!process.version.startsWith('v20.'))(
  'no journey has grown without a reason (npm run journeys)',
  () => {
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      ['--import', 'tsx', 'scripts/journeys.ts', '--check'],
      { cwd: ROOT, encoding: 'utf8' },
    )
    expect([status, stderr]).toEqual([0, ''])
    expect(stdout.match(/^[\w ]+: \d+ functions/gm)).toHaveLength(5)
  },
)
