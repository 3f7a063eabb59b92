import { defineConfig, type UserWorkspaceConfig } from 'vitest/config'

const { VITEST_RESULTS, FUZZ = '1' } = process.env

/*
 * Projects:
 *
 * unit         a part in this process; files share modules, which halves the time
 * integration  parts together, with sockets and threads; commands by `main(argv, host)`
 * system       processes, signals, and what needs more than Node.js: redis-server, nginx, Chromium, shells, toolchains
 */
export const PROJECTS = {
  unit: {
    name: 'unit',
    include: ['test/unit/**/*.test.ts'],
    isolate: false,
    testTimeout: 30_000 * Number(FUZZ),
  },
  integration: {
    name: 'integration',
    include: ['test/integration/*.test.ts'],
    isolate: false,
    testTimeout: 30_000,
  },
  system: { name: 'system', include: ['test/system/*.test.ts'], testTimeout: 120_000 },
} satisfies Record<string, UserWorkspaceConfig['test']>

export default defineConfig({
  test: {
    globalSetup: 'test/support/global-setup.ts',
    maxWorkers: 2,
    reporters: VITEST_RESULTS ? ['default', ['json', { outputFile: VITEST_RESULTS }]] : ['default'],
    projects: Object.values(PROJECTS).map((project) => ({ test: { ...project } })),
  },
})
