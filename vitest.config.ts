import { configDefaults, defineConfig } from 'vitest/config'

const { VITEST_RESULTS } = process.env

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    exclude: [...configDefaults.exclude, 'test/system/**'],
    testTimeout: 30_000,
    reporters: VITEST_RESULTS ? ['default', ['json', { outputFile: VITEST_RESULTS }]] : ['default'],
  },
})
