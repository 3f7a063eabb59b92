import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { parse } from 'yaml'
import { problemsOf, releaseOf } from '../../../scripts/release.ts'
import { BUILDS, isNewGo } from '../../support/registry-programs.ts'

const ROOT = fileURLToPath(new URL('../../..', import.meta.url))

const read = (path: string) => readFileSync(`${ROOT}/${path}`, 'utf8')

/** Files that a release reads. */
const FILES = ['package.json', 'package-lock.json', 'CHANGELOG.md']

interface Step {
  readonly uses?: string
  readonly run?: string
  readonly with?: Readonly<Record<string, unknown>>
  readonly env?: Readonly<Record<string, unknown>>
}

interface Job {
  readonly needs?: string | readonly string[]
  readonly uses?: string
  readonly permissions?: Readonly<Record<string, string>>
  readonly container?: { readonly image: string }
  readonly strategy?: { readonly matrix: Readonly<Record<string, readonly (string | number)[]>> }
  readonly steps?: readonly Step[]
}

interface Workflow {
  readonly permissions: Readonly<Record<string, string>>
  readonly jobs: Readonly<Record<string, Job>>
}

const workflow = (name: string): Workflow => parse(read(`.github/workflows/${name}`))

const scriptsOf = ({ steps = [] }: Job) => steps.map(({ run }) => run ?? '').join('\n')

const files = readdirSync(`${ROOT}/.github`, { recursive: true, encoding: 'utf8' }).filter((path) =>
  path.endsWith('.yml'),
)

/** The versions of the support table: the first column, and whether upstream still supports them. */
const table = [...read('docs/operate/node-versions.md').matchAll(/^\| (\d+) \| (\d{4}-\d\d-\d\d) \|/gm)]
const supported = table.map(([, version]) => Number(version))

test.each(files)('%s parses', (path) => {
  expect(parse(read(`.github/${path}`))).toBeTypeOf('object')
})

test('CI runs .ci/run on each Node.js version of the support table', () => {
  const jobs = Object.values(workflow('ci.yml').jobs)
  const [job, ...others] = jobs.filter((each) => scriptsOf(each).includes('bash .ci/run'))
  expect(others).toEqual([])
  expect(supported.length).toBeGreaterThan(2)
  expect(job?.strategy?.matrix.node).toEqual(supported)
  expect(job?.container?.image).toContain(`node:\${{ matrix.node }}`)
})

test('the support table, package.json and .ci/run agree about the versions', () => {
  const { engines } = JSON.parse(read('package.json')) as { engines: { node: string } }
  const [first, ...later] = supported
  expect(engines.node).toBe(`^${first}.19.0 || >=${later[0]}.12.0`)
  const [, inScript = ''] = /^ {2}for version in (.*); do$/m.exec(read('.ci/run')) ?? []
  expect(inScript.split(' ').map(Number)).toEqual(later)
})

test('the image is built on the recommended Node.js', () => {
  const [, recommended] = /^\| (\d+) .*\*\*recommended\*\*/m.exec(read('docs/operate/node-versions.md')) ?? []
  const dockerfile = read('deploy/docker/Dockerfile')
  expect(dockerfile).toMatch(new RegExp(`^ARG NODE_IMAGE=docker\\.io/library/node:${recommended}-`, 'm'))
  const bases = [...dockerfile.matchAll(/^FROM (?:--platform=\S+ )?(\S+)/gm)].map(([, base]) => base)
  expect(new Set(bases)).toEqual(new Set([`\${NODE_IMAGE}`, 'scratch']))
})

test('.ci/run fetches a Go that builds the programs of the tests', () => {
  const [, version = ''] = /^go=(.*)$/m.exec(read('.ci/run')) ?? []
  expect(['go1.19.8', 'go1.25.9', `go${version}`].map(isNewGo)).toEqual([false, false, true])
  const [check = ''] = /^has_go\(\).*$/m.exec(read('.ci/run')) ?? []
  for (const other of ['go1.19.8', 'go1.25.9', 'go1.26.0', 'go1.27.1', '']) {
    const shell = `go() { echo ${other}; }; go=${version}; ${check}; has_go`
    expect([other, spawnSync('bash', ['-c', shell]).status === 0]).toEqual([other, isNewGo(other)])
  }
})

test('the jobs of a release that publish run one after the other, after the check and CI', () => {
  const { jobs } = workflow('release.yml')
  const steps = ['check', 'ci', 'npm', 'image', 'chart', 'notes']
  expect(Object.keys(jobs)).toEqual(steps)
  expect(Object.values(jobs).map(({ needs }) => needs)).toEqual([undefined, ...steps.slice(0, -1)])
  for (const step of steps.filter((name) => name !== 'ci'))
    expect(scriptsOf(jobs[step] ?? {})).toContain(`node scripts/release.ts ${step}`)
  expect(jobs.ci?.uses).toBe('./.github/workflows/ci.yml')
})

test('what a release signs, it signs with the identity of the workflow, by a cosign whose signatures wasm-serve verifies', () => {
  const { jobs } = workflow('release.yml')
  const signing = ['npm', 'image', 'chart'].map((name) => jobs[name])
  for (const job of signing) expect(job?.permissions).toMatchObject({ 'id-token': 'write' })
  const { cosign3 } = BUILDS
  for (const job of signing.slice(1)) {
    const installer = job?.steps?.find(({ uses }) => uses?.startsWith('sigstore/cosign-installer@'))
    expect(cosign3).toContain(`@${installer?.with?.['cosign-release']};`)
    expect(job?.permissions).toMatchObject({ packages: 'write' })
  }
})

test('npm is asked with no token, which it would prefer to the identity', () => {
  const { steps = [] } = workflow('release.yml').jobs.npm ?? {}
  expect(steps.some((step) => 'registry-url' in (step.with ?? {}))).toBe(false)
  expect(Object.keys(Object.assign({}, ...steps.map(({ env }) => env)))).toEqual(['NPM_CONFIG_PROVENANCE'])
})

test('a fork names its own address with one command, and then a release of it is not refused', () => {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-address-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const filter = (path: string) => !path.includes('.vitepress')
  for (const path of ['scripts/own-address.sh', 'deploy', 'docs', ...FILES])
    cpSync(`${ROOT}/${path}`, join(folder, path), { recursive: true, filter })
  const { version } = JSON.parse(read('package.json'))
  const changelog = `${read('CHANGELOG.md')}\n## [${version}] - 2026-01-01\n\n- A change.\n`
  const problems = () =>
    problemsOf(releaseOf(`v${version}`, 'Acme/Fork', 'https://github.com'), (path) =>
      path === 'CHANGELOG.md' ? changelog : readFileSync(join(folder, path), 'utf8'),
    )
  expect(problems()).toHaveLength(7)
  execFileSync('bash', [join(folder, 'scripts/own-address.sh'), 'Acme/Fork'])
  expect(problems()).toEqual([])
  const { repository } = parse(readFileSync(join(folder, 'deploy/helm/wasm-serve/values.yaml'), 'utf8')).image
  expect(repository).toBe('ghcr.io/acme/fork')
  execFileSync('bash', [join(folder, 'scripts/own-address.sh'), 'other/name'])
  expect(spawnSync('grep', ['-riE', '(com|io)/acme/fork', folder], { encoding: 'utf8' }).stdout).toBe('')
})

test.each(['ci.yml', 'release.yml'])('%s may only read, unless a job says otherwise', (name) => {
  expect(workflow(name).permissions).toEqual({ contents: 'read' })
})

test.each(['ci.yml', 'release.yml'])('%s names actions by the hash of a commit', (name) => {
  const { jobs } = workflow(name)
  const used = Object.values(jobs).flatMap(({ uses, steps = [] }) => [
    uses,
    ...steps.map((step) => step.uses),
  ])
  const actions = used.filter((use): use is string => use !== undefined && !use.startsWith('./'))
  expect(actions.filter((action) => !/@[0-9a-f]{40}$/.test(action))).toEqual([])
})
