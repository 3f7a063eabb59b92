import { configDefaults, defineConfig } from 'vitest/config'
import config from './vitest.config.ts'

/** What needs more than Node.js: the toolchains of guests, and shells. */
export default defineConfig({
  test: {
    ...config.test,
    include: ['test/system/**/*.test.ts'],
    exclude: configDefaults.exclude,
    testTimeout: 120_000,
  },
})
