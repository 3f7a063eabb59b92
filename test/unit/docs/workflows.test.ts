import { execFileSync } from 'node:child_process'
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { parse } from 'yaml'

const ROOT = fileURLToPath(new URL('../../..', import.meta.url))

const read = (path: string) => readFileSync(`${ROOT}/${path}`, 'utf8')

interface Step {
  readonly uses?: string
  readonly run?: string
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
  expect(engines.node).toBe(`>=${first}.19`)
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

test('a release is made only after CI, with provenance and signatures', () => {
  const { jobs } = workflow('release.yml')
  const gate = Object.entries(jobs).find(([, { uses }]) => uses === './.github/workflows/ci.yml')?.[0]
  const others = Object.entries(jobs).filter(([name]) => name !== gate)
  expect(others.length).toBeGreaterThan(1)
  const needsOf = (name: string): readonly string[] => [jobs[name]?.needs ?? []].flat()
  const reaches = (name: string): boolean =>
    needsOf(name).some((needed) => needed === gate || reaches(needed))
  expect(others.filter(([name]) => !reaches(name))).toEqual([])

  const publishing = others.filter(([, job]) => /npm publish/.test(scriptsOf(job)))
  expect(publishing).toHaveLength(1)
  for (const [, job] of publishing) {
    expect(scriptsOf(job)).toMatch(/npm publish .*--provenance/)
    expect(job.permissions).toMatchObject({ 'id-token': 'write' })
  }
  const pushing = others.filter(([, job]) => /docker buildx build/.test(scriptsOf(job)))
  expect(pushing).toHaveLength(1)
  for (const [, job] of pushing) {
    expect(scriptsOf(job)).toMatch(/deploy\/docker\/Dockerfile/)
    expect(scriptsOf(job)).toMatch(/cosign sign --yes --recursive/)
    expect(scriptsOf(job)).toMatch(/cosign attest --yes --type cyclonedx/)
    expect(scriptsOf(job)).toMatch(/base=\$base@\$\(docker buildx imagetools inspect/)
    expect(scriptsOf(job)).toMatch(/--build-arg "NODE_IMAGE=\$base"/)
    expect(job.permissions).toMatchObject({ 'id-token': 'write', packages: 'write' })
  }
})

test('a release publishes the chart, and names its own repository and image in it', () => {
  const { jobs } = workflow('release.yml')
  const [chart = {}] = Object.values(jobs).filter((job) => /helm push/.test(scriptsOf(job)))
  expect(scriptsOf(chart)).toMatch(/own-address\.sh[\s\S]*helm package[\s\S]*helm push[\s\S]*cosign sign/)
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-address-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  for (const path of ['scripts/own-address.sh', 'deploy/helm', 'deploy/compose'])
    cpSync(`${ROOT}/${path}`, join(folder, path), { recursive: true })
  execFileSync('bash', [join(folder, 'scripts/own-address.sh'), 'acme/fork'])
  const { image } = parse(readFileSync(join(folder, 'deploy/helm/wasm-serve/values.yaml'), 'utf8'))
  expect(image.repository).toBe('ghcr.io/acme/fork')
  for (const path of ['helm/wasm-serve/Chart.yaml', 'helm/wasm-serve/README.md', 'compose/compose.yaml']) {
    const text = readFileSync(join(folder, 'deploy', path), 'utf8')
    expect(text).toMatch(/(ghcr\.io|github\.com)\/acme\/fork/)
    expect(text).not.toMatch(/(ghcr\.io|github\.com)\/wasm-serve/)
  }
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
