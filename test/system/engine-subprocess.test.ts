import { kernel } from '../../src/runtime/kernel.ts'
import { describeEngine } from '../support/engine-suite.ts'

describeEngine({ name: 'subprocess', runtime: kernel })
