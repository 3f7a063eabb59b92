import { resolve } from 'node:path'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import base from '../../vitest.config.ts'

const { MUTANT_TESTS = '' } = process.env
const order = MUTANT_TESTS.split(':').map((file) => resolve(file))

/** The tests that are nearest to the mutant come first: most mutants need no others. */
class NearestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    return files.sort((a, b) => order.indexOf(a.moduleId) - order.indexOf(b.moduleId))
  }
}

/** How the tests run for a mutant; `mutation.ts` starts them in a copy of the tree. */
export default {
  ...base,
  cacheDir: 'node_modules.cache',
  test: {
    ...base.test,
    maxWorkers: 1,
    bail: 1,
    retry: 2, // on a busy machine a test can fail once: that is no kill
    reporters: ['verbose', 'json'],
    outputFile: 'mutant.json',
    sequence: { sequencer: NearestFirst },
  },
}
