import { kernel } from '../../src/runtime/kernel.ts'
import { enginesOf } from '../support/engine.ts'
import { describeEngine } from '../support/engine-suite.ts'

for (const kind of enginesOf(kernel)) describeEngine({ ...kind, isLazy: true })
