import { expect, onTestFailed, test } from 'vitest'
import { runScenario } from '../support/chaos-run/run.ts'
import { describeWith } from '../support/tools.ts'

/*
 * The short form of test/long/chaos.ts. Once more as it was: CHAOS_SEED=1 npx vitest run --project system test/system/chaos-processes.test.ts
 */

const SEED = Number(process.env.CHAOS_SEED ?? Math.floor(Math.random() * 2 ** 32))

/** Far more than it takes: on a busy machine each restart takes a minute. */
const LIMIT_MS = 1_200_000

describeWith(['redis-server'], () =>
  test.each([
    { name: 'a server with processes', listeners: ['tls'] },
    { name: 'a fleet', listeners: ['http', 'unix'] },
  ] as const)(
    '$name loses and crosses nothing while processes, stores and hostile modules fail, and holds what it held',
    async ({ name, listeners }) => {
      onTestFailed(() => console.error(`CHAOS_SEED=${SEED}`))
      const result = await runScenario({ name, listeners, seed: SEED, seconds: 20, warmUpSeconds: 3 })
      expect(result.problems).toEqual([])
      expect(result.requests).toBeGreaterThan(100)
    },
    LIMIT_MS,
  ),
)
