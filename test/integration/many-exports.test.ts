import { expect, test } from 'vitest'
import type { RouteOptions } from '../../src/index.ts'
import { guestBytes } from '../support/guest.ts'
import { serve } from '../support/serve.ts'
