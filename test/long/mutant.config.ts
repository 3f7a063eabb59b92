import { resolve } from 'node:path'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import base, { PROJECTS } from '../../vitest.config.ts'

const { MUTANT_TESTS = '' } = process.env
const order = MUTANT_TESTS.split(':').map((file) => resolve(file))

/** The tests that are nearest to the mutant come first: most mutants need no others. */
class NearestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    return files.sort((a, b) => order.indexOf(a.moduleId) - order.indexOf(b.moduleId))
  }
}

/** Those of the sources as text, which a copy with mutants has not. */
const OF_TEXTS = ['test/unit/house/**', 'test/unit/docs/**', 'test/unit/bench/**']

/** How the tests run for a mutant; `tree.ts` starts them in a copy of the tree, which has the files of threads. */
export default {
  ...base,
  cacheDir: 'node_modules.cache',
  test: {
    ...base.test,
    globalSetup: [],
    projects: [PROJECTS.unit, PROJECTS.integration].map((project) => ({
      test: { ...project, exclude: OF_TEXTS, setupFiles: 'test/long/mutant-test.ts' },
    })),
    maxWorkers: 1,
    bail: MUTANT_TESTS === '' ? 0 : 1,
    retry: 2, // on a busy machine a test can fail once: that is no kill
    // The sources do not change between runs, but for the number of the mutant.
    experimental: { fsModuleCache: true, fsModuleCachePath: 'node_modules.cache/modules' },
    reporters: ['verbose', 'json'],
    outputFile: 'mutant.json',
    sequence: { sequencer: NearestFirst },
  },
}
