import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import process from 'node:process'
import { describe, expect, test } from 'vitest'
import { openSandbox } from '../../src/engine/subprocess/sandbox.ts'
import { temporaryFolder } from '../support/admin-api.ts'

const isLinux = process.platform === 'linux'
const isRoot = process.getuid?.() === 0

type Tool = 'unshare' | 'prlimit' | 'setpriv'

/** A folder with programs that start another one, and refuse these options. */
function folderWith(tools: Readonly<Partial<Record<Tool, readonly string[]>>>): string {
  const folder = temporaryFolder()
  for (const [name, refused] of Object.entries(tools)) {
    const cases = refused.map((option) => `${option}) exit 1;;\n`).join('')
    const program = `#!/bin/sh\nwhile :; do case "$1" in\n${cases}--) shift; break;;\n-*) shift;;\n*) break;;\nesac; done\nexec "$@"\n`
    writeFileSync(join(folder, name), program, { mode: 0o755 })
  }
  return folder
}

const NOTHING = {
  networkNamespace: false,
  otherNamespaces: false,
  user: undefined,
  noNewPrivileges: false,
  resourceLimits: false,
  endsWithServer: 'thread',
}
const USER = isRoot ? { user: '7:8', capabilities: 'none' } : {}

describe.runIf(isLinux)('of the sandbox there is what the tools of the machine can do:', () => {
  test.each<[string, Parameters<typeof folderWith>[0], object]>([
    ['nothing without tools', {}, {}],
    ['namespaces', { unshare: [] }, { networkNamespace: true, otherNamespaces: true }],
    ['the network only', { unshare: ['-i'] }, { networkNamespace: true }],
    ['no namespaces if they are refused', { unshare: ['-n'] }, {}],
    ['limits', { prlimit: [] }, { resourceLimits: true }],
    ['no limits if they are refused', { prlimit: ['--core=0'] }, {}],
    ['no new privileges', { setpriv: [] }, { noNewPrivileges: true, endsWithServer: 'kernel', ...USER }],
    [
      'no end with the server if the kernel has none',
      { setpriv: ['--pdeathsig=KILL'] },
      { noNewPrivileges: true },
    ],
    ['nothing if privileges stay', { setpriv: ['--no-new-privs'] }, {}],
  ])('%s', async (_what, tools, held) => {
    const { report, programArgs } = await openSandbox('7:8', [folderWith(tools)])
    expect(report).toMatchObject({ ...NOTHING, ...held })
    expect(programArgs.includes('watch')).toBe(report.endsWithServer === 'thread')
  })
})
