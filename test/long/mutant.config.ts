import { BaseSequencer, type TestSpecification } from 'vitest/node'
import { PROJECTS } from '../../vitest.config.ts'

/** The tests that are most likely to notice the mutant come first: `mutation.ts` has the order. */
class AsGiven extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    return files
  }
}

/** Those of the sources as text, which a copy with mutants has not, and of what is no source. */
const OF_TEXTS = [
  'test/unit/house/{growth,lifetimes,mutants,regexps,rooms}.test.ts',
  'test/unit/docs/{changelog,error-codes,page-links,release,security-page,workflows}.test.ts',
  'test/unit/bench/**',
]

/** System tests that run the sources in their own process, in some seconds, and reach what no other test does. */
const IN_PROCESS = [
  ...[
    'admin-api-changes',
    'admin-lists',
    'streamed-calls',
    'option-changes',
    'metrics',
    'state-trust',
    'trust-negative',
  ],
  ...['cli-config', 'fleet-command', 'registry-commands', 'scripts', 'scripts-types', 'state-redis'],
  ...['processes-parts', 'bench-matrix', 'edge-jwt', 'edge-static', 'mcp-hostile', 'tls'],
  ...['http2', 'http2-floods', 'tracing'],
  ...['mcp', 'deadlines', 'answers', 'mcp-access', 'many-exports', 'names-apart', 'admin-api-endpoints'],
  ...['workers-calls', 'kept-instances', 'cli-init', 'resettable-large', 'engine-choice'],
  ...['admin', 'cli-mistakes', 'guest-process', 'route-table'],
  ...['mcp-hyper', 'mcp-stdio', 'mcp-tasks', 'streams-exchange', 'streams-requests', 'websocket-messages'],
]

/**
 * How the tests run for a mutant; `mutant-runner.ts` starts them in a copy of the tree, which has the files of threads.
 * All of these tests are one project, so that they run in one process.
 */
export default {
  cacheDir: 'node_modules.cache',
  test: {
    include: [
      ...PROJECTS.unit.include,
      ...PROJECTS.integration.include,
      ...IN_PROCESS.map((name) => `test/system/${name}.test.ts`),
    ],
    exclude: OF_TEXTS,
    setupFiles: 'test/long/mutant-test.ts',
    isolate: PROJECTS.unit.isolate,
    maxWorkers: 1,
    retry: 2, // on a busy machine a test can fail once: that is no kill
    // The sources do not change between runs, but for the number of the mutant.
    experimental: { fsModuleCache: true, fsModuleCachePath: 'node_modules.cache/modules' },
    sequence: { sequencer: AsGiven },
  },
}
