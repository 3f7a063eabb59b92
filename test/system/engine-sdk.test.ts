import { sdk } from '../../src/runtime/sdk.ts'
import { enginesOf } from '../support/engine.ts'
import { describeEngine } from '../support/engine-suite.ts'

for (const kind of enginesOf(sdk)) describeEngine(kind)
