import { defineConfig } from 'vitest/config'

const { VITEST_RESULTS } = process.env

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    testTimeout: 30_000,
    reporters: VITEST_RESULTS ? ['default', ['json', { outputFile: VITEST_RESULTS }]] : ['default'],
  },
})
