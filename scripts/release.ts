import { spawnSync } from 'node:child_process'
import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { argv, env, exit } from 'node:process'
import { fileURLToPath } from 'node:url'

/*
 * node scripts/release.ts check | npm | image | chart | notes
 *
 * The steps of .github/workflows/release.yml, in this order. `check` compares the tag with the files. The others publish, and may run
 * again after a failure: what is there with the same content is kept, and other content is an error. They read the variables of
 * GitHub Actions, and need Node.js 24 without packages. `RELEASE_REGISTRY` replaces ghcr.io in rehearsals, `RELEASE_PLATFORMS` the
 * platforms of the image.
 */

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const NAME = 'wasm-serve'
const CHART = 'deploy/helm/wasm-serve'
const DOCKERFILE = 'deploy/docker/Dockerfile'
const ISSUER = 'https://token.actions.githubusercontent.com'

/** What a registry says of a tag that it does not have. GHCR denies packages that do not exist yet: a push shows whether it is that. */
const ABSENT = /\bnot found|manifest unknown|name unknown|\b403\b|denied/i

/** A mistake of whoever makes the release: it is shown without a stack. */
class Refusal extends Error {}

/** What is released. */
interface Release {
  readonly version: string
  /** `OWNER/REPOSITORY`, as on GitHub. */
  readonly repository: string
  /** The URL of the repository. */
  readonly address: string
  /** The published name of the image, without a tag. */
  readonly image: string
}

/** @throws if the tag is none of a release. */
export function releaseOf(tag: string, repository: string, server: string): Release {
  const [, version] = /^v(\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?)$/.exec(tag) ?? []
  if (version === undefined) throw new Refusal(`the tag ${tag} is neither vX.Y.Z nor vX.Y.Z-rc.N`)
  const image = `ghcr.io/${repository.toLowerCase()}`
  return { version, repository, address: `${server}/${repository}`, image }
}

function isPrerelease(version: string): boolean {
  return version.includes('-')
}

/**
 * The tags of the image that move to a version: `X.Y`, `X` and `latest`, if no newer version has them. Those of a prerelease stay, and
 * there is no `0`, because a minor version before 1.0 may break users.
 */
export function movingTags(version: string, published: readonly string[]): string[] {
  if (isPrerelease(version)) return []
  const [major = '', minor = ''] = version.split('.')
  const stable = published.filter((other) => !isPrerelease(other))
  const isNewest = (start: string) =>
    stable.every((other) => !other.startsWith(start) || compareVersions(other, version) <= 0)
  const tags = [
    { name: `${major}.${minor}`, moves: isNewest(`${major}.${minor}.`) },
    { name: major, moves: major !== '0' && isNewest(`${major}.`) },
    { name: 'latest', moves: isNewest('') },
  ]
  return tags.flatMap(({ name, moves }) => (moves ? [name] : []))
}

function compareVersions(a: string, b: string): number {
  return a.localeCompare(b, 'en', { numeric: true })
}

/** The tag of npm: it moves to each version that is published, and an older line has its own. */
export function npmTag(version: string, published: readonly string[]): string {
  if (isPrerelease(version)) return 'next'
  if (movingTags(version, published).includes('latest')) return 'latest'
  return `latest-${version.replace(/\.\d+$/, '')}`
}

/** The section of a version in the changelog; empty if there is none. */
export function notesOf(changelog: string, version: string): string {
  const section = changelog.split(/^## /m).find((part) => part.startsWith(`[${version}] - `)) ?? ''
  return section.slice(section.indexOf('\n') + 1).trim()
}

/** What differs between a release and the files. @param read - Reads a file, by its path from the root of the repository. */
export function problemsOf(
  { version, repository, address, image }: Release,
  read: (path: string) => string,
): string[] {
  const manifest = JSON.parse(read('package.json'))
  const chart = read(`${CHART}/Chart.yaml`)
  const inChart = (key: string) => new RegExp(`^${key}: (.*)$`, 'm').exec(chart)?.[1]
  const [, inValues] = /^image:\n(?: .*\n)*? {2}repository: (.*)$/m.exec(read(`${CHART}/values.yaml`)) ?? []
  const [, inCompose] = /:-(ghcr\.io\/[^}]*)\}/.exec(read('deploy/compose/compose.yaml')) ?? []
  const versions = [
    ['version in package.json', manifest.version, version],
    ['version in package-lock.json', JSON.parse(read('package-lock.json')).version, version],
    ['version in Chart.yaml', inChart('version'), version],
    ['appVersion in Chart.yaml', inChart('appVersion'), version],
  ] as const
  const addresses = [
    ['repository.url in package.json', manifest.repository?.url, `git+${address}.git`],
    ['homepage in package.json', manifest.homepage, `${address}#readme`],
    ['bugs.url in package.json', manifest.bugs?.url, `${address}/issues`],
    ['home in Chart.yaml', inChart('home'), address],
    ['image.repository in values.yaml', inValues, image],
    ['the image in compose.yaml', inCompose, `${image}:${version}`],
  ] as const
  const differ = (facts: typeof versions | typeof addresses) =>
    facts.flatMap(([what, found, wanted]) =>
      found === wanted ? [] : [`${what} is ${found ?? 'missing'}, not ${wanted}`],
    )
  const wrong = differ(addresses)
  if (wrong.length > 0)
    wrong.push(`bash scripts/own-address.sh ${repository} writes the addresses: commit them`)
  const hasNotes = notesOf(read('CHANGELOG.md'), version) !== ''
  const notes = hasNotes ? [] : [`CHANGELOG.md has no changes below "## [${version}] - YYYY-MM-DD"`]
  return [...differ(versions), ...notes, ...wrong]
}

/* Programs */

interface Ran {
  readonly ok: boolean
  readonly output: string
  readonly error: string
}

function attempt(program: string, words: readonly string[], input = ''): Ran {
  const { status, stdout, stderr, error } = spawnSync(program, words, {
    cwd: ROOT,
    encoding: 'utf8',
    input,
    maxBuffer: 1e9,
  })
  if (error) throw error
  return { ok: status === 0, output: stdout.trim(), error: stderr.trim() }
}

/** Runs what takes minutes: its output is shown as it comes. */
function follow(program: string, words: readonly string[]): void {
  console.log(`$ ${program} ${words.join(' ')}`)
  const { status, error } = spawnSync(program, words, { cwd: ROOT, stdio: ['ignore', 'inherit', 'inherit'] })
  if (error) throw error
  if (status !== 0) throw new Refusal(`${program} failed`)
}

function must(program: string, words: readonly string[], input?: string): Ran {
  console.log(`$ ${program} ${words.join(' ')}`)
  const ran = attempt(program, words, input)
  if (!ran.ok) throw new Refusal(`${program} ${words.join(' ')}\n${ran.output}\n${ran.error}`)
  return ran
}

/** Runs it, unless what it asks for does not exist: then the result is undefined. */
function find(program: string, words: readonly string[], absent = ABSENT): Ran | undefined {
  const ran = attempt(program, words)
  if (ran.ok) return ran
  if (absent.test(ran.error)) return undefined
  throw new Refusal(`${program} ${words.join(' ')}\n${ran.output}\n${ran.error}`)
}

function inFolder<Result>(use: (folder: string) => Result): Result {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-release-'))
  try {
    return use(folder)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

function report(line: string): void {
  console.log(line)
  if (env.GITHUB_STEP_SUMMARY !== undefined) appendFileSync(env.GITHUB_STEP_SUMMARY, `${line}\n\n`)
}

/* Steps */

/** Where images are pushed, which is another registry than that of their names in a rehearsal only. */
function pushed({ image }: Release): string {
  return image.replace(/^ghcr\.io/, env.RELEASE_REGISTRY ?? 'ghcr.io')
}

function check(release: Release): void {
  const problems = problemsOf(release, (path) => readFileSync(join(ROOT, path), 'utf8'))
  if (problems.length > 0) throw new Refusal(problems.join('\n'))
}

/** The versions on npm: it is the first to have one, so these are all that were released. */
function publishedVersions(): string[] {
  const ran = find('npm', ['view', NAME, 'versions', '--json'], /E404/)
  return ran === undefined ? [] : [JSON.parse(ran.output)].flat()
}

function publishPackage({ version }: Release): void {
  inFolder((folder) => {
    follow('npm', ['pack', '--pack-destination', folder])
    const file = join(folder, `${NAME}-${version}.tgz`)
    const published = publishedVersions()
    if (published.includes(version)) {
      const { output } = must('npm', ['diff', `--diff=${NAME}@${version}`, `--diff=${file}`])
      if (output !== '') throw new Refusal(`npm has ${NAME}@${version} with other content\n${output}`)
      report(`npm has \`${NAME}@${version}\` already`)
      return
    }
    const tag = npmTag(version, published)
    must('npm', ['publish', file, '--access', 'public', '--tag', tag])
    report(`Published \`${NAME}@${version}\` on npm as \`${tag}\``)
  })
}

/** @returns the digest of a tag, or undefined if there is no such tag. */
function digestOf(reference: string): string | undefined {
  const format = ['--format', '{{json .Manifest.Digest}}']
  const ran = find('docker', ['buildx', 'imagetools', 'inspect', reference, ...format])
  return ran && JSON.parse(ran.output)
}

function publishImage(release: Release): void {
  const { version } = release
  const name = pushed(release)
  const found = digestOf(`${name}:${version}`)
  if (found !== undefined) requireRevision(`${name}:${version}`)
  const digest = found ?? buildImage(release, name)
  const reference = `${name}@${digest}`
  sign(reference)
  for (const { digest: own, platform } of platformsOf(reference)) {
    sign(`${name}@${own}`)
    attestParts(`${name}@${own}`, platform)
  }
  // Last: what a tag names is signed.
  for (const tag of [version, ...movingTags(version, publishedVersions())]) {
    if (digestOf(`${name}:${tag}`) === digest) continue
    must('docker', ['buildx', 'imagetools', 'create', '--tag', `${name}:${tag}`, reference])
    if (digestOf(`${name}:${tag}`) !== digest) throw new Refusal(`${name}:${tag} is not ${digest}`)
  }
  report(`The image of ${version} is \`${reference}\``)
}

/** Two builds of the same sources differ: times are in the provenance. So the revision decides whether it is the same image. */
function requireRevision(reference: string): void {
  const format = ['--format', '{{json .Image}}']
  const { output } = must('docker', ['buildx', 'imagetools', 'inspect', reference, ...format])
  const compact = JSON.stringify(JSON.parse(output))
  if (!compact.includes(`"org.opencontainers.image.revision":"${env.GITHUB_SHA}"`))
    throw new Refusal(`${reference} is there, and was not built from ${env.GITHUB_SHA}`)
}

/** Builds the image and pushes it without a tag. @returns its digest. */
function buildImage({ version, address }: Release, name: string): string {
  const [, base = ''] = /^ARG NODE_IMAGE=(.*)$/m.exec(readFileSync(join(ROOT, DOCKERFILE), 'utf8')) ?? []
  const digest = digestOf(base)
  if (digest === undefined) throw new Refusal(`there is no image ${base}`)
  const pinned = `${base}@${digest}`
  env.SOURCE_DATE_EPOCH = must('git', ['log', '-1', '--pretty=%ct']).output
  const platforms = env.RELEASE_PLATFORMS ?? 'linux/amd64,linux/arm64'
  const values = { NODE_IMAGE: pinned, VERSION: version, REVISION: env.GITHUB_SHA, SOURCE: address }
  return inFolder((folder) => {
    const metadata = join(folder, 'metadata.json')
    follow('docker', [
      ...['buildx', 'build', '--progress', 'plain', '--file', DOCKERFILE, '--platform', platforms],
      ...Object.entries(values).flatMap(([key, value]) => ['--build-arg', `${key}=${value}`]),
      ...['--provenance', 'mode=max', '--metadata-file', metadata],
      '--output',
      `type=image,name=${name},push=true,push-by-digest=true,name-canonical=true,oci-mediatypes=true,rewrite-timestamp=true`,
      '.',
    ])
    report(`Built from \`${pinned}\``)
    return JSON.parse(readFileSync(metadata, 'utf8'))['containerimage.digest']
  })
}

interface Platform {
  readonly os: string
  readonly architecture: string
}

/** The images of an index, without their provenance. */
function platformsOf(reference: string): { readonly digest: string; readonly platform: Platform }[] {
  const { output } = must('docker', ['buildx', 'imagetools', 'inspect', '--raw', reference])
  const { manifests } = JSON.parse(output) as { manifests: { digest: string; platform: Platform }[] }
  return manifests.filter(({ platform }) => platform.os !== 'unknown')
}

/** That of the workflow, which needs no key. */
function identity(): string[] {
  const own = `${env.GITHUB_SERVER_URL}/${env.GITHUB_WORKFLOW_REF}`
  return ['--certificate-oidc-issuer', ISSUER, '--certificate-identity', own]
}

/** Signs it, unless this workflow did so before. */
function sign(reference: string): void {
  const verify = ['verify', ...identity(), reference]
  if (attempt('cosign', verify).ok) return
  must('cosign', ['sign', '--yes', reference])
  must('cosign', verify)
}

/** Attests the list of parts that is in the image, unless this workflow did so before. */
function attestParts(reference: string, { os, architecture }: Platform): void {
  const type = ['--type', 'cyclonedx']
  const verify = ['verify-attestation', ...type, ...identity(), reference]
  if (attempt('cosign', verify).ok) return
  inFolder((folder) => {
    const read = `FROM ${reference} AS image\nFROM scratch\nCOPY --from=image /usr/share/sbom /\n`
    must(
      'docker',
      [
        'buildx',
        'build',
        '--platform',
        `${os}/${architecture}`,
        '--provenance=false',
        '--output',
        folder,
        '-',
      ],
      read,
    )
    must('cosign', ['attest', '--yes', ...type, '--predicate', join(folder, `${NAME}.cdx.json`), reference])
  })
  must('cosign', verify)
}

function publishChart(release: Release): void {
  const { version } = release
  const charts = `${pushed(release)}/charts`
  inFolder((folder) => {
    must('helm', ['package', CHART, '--destination', folder])
    const file = `${NAME}-${version}.tgz`
    const other = join(folder, 'published')
    const pull = ['pull', `oci://${charts}/${NAME}`, '--version', version, '--destination', other]
    must('mkdir', [other])
    const found = find('helm', pull)
    if (found) requireSameFiles(join(folder, file), join(other, file))
    const { output, error } = found ?? must('helm', ['push', join(folder, file), `oci://${charts}`])
    const [digest] = /sha256:[0-9a-f]{64}/.exec(output + error) ?? []
    if (digest === undefined) throw new Refusal(`helm names no digest\n${output}\n${error}`)
    sign(`${charts}/${NAME}@${digest}`)
    report(`The chart of ${version} is \`${charts}/${NAME}@${digest}\``)
  })
}

/** Two packages of the same chart differ in times. */
function requireSameFiles(own: string, published: string): void {
  for (const file of [own, published])
    must('sh', ['-c', 'mkdir "$1.d" && tar -xzf "$1" -C "$1.d"', 'sh', file])
  const { ok, output } = attempt('diff', ['-r', `${own}.d`, `${published}.d`])
  if (!ok) throw new Refusal(`the registry has the chart of this version with other content\n${output}`)
}

function publishNotes({ version }: Release): void {
  const tag = `v${version}`
  const notes = notesOf(readFileSync(join(ROOT, 'CHANGELOG.md'), 'utf8'), version)
  const found = find('gh', ['release', 'view', tag, '--json', 'body', '--jq', '.body'])
  if (found) {
    const isSame = found.output.replaceAll('\r', '').trim() === notes
    if (!isSame) throw new Refusal(`the release ${tag} is there, with other notes`)
    report(`The release ${tag} is there already`)
    return
  }
  const isLatest = movingTags(version, publishedVersions()).includes('latest')
  inFolder((folder) => {
    const file = join(folder, 'notes.md')
    writeFileSync(file, notes)
    must('gh', [
      ...['release', 'create', tag, '--verify-tag', '--title', tag, '--notes-file', file],
      ...(isPrerelease(version) ? ['--prerelease'] : []),
      `--latest=${isLatest}`,
    ])
  })
}

const STEPS: Readonly<Record<string, (release: Release) => void>> = {
  check,
  npm: publishPackage,
  image: publishImage,
  chart: publishChart,
  notes: publishNotes,
}

if (argv[1] === fileURLToPath(import.meta.url)) {
  try {
    const [, , name = ''] = argv
    const step = STEPS[name]
    if (step === undefined) throw new Refusal(`the steps are ${Object.keys(STEPS).join(', ')}`)
    const { GITHUB_REF_NAME = '', GITHUB_REPOSITORY = '', GITHUB_SERVER_URL = 'https://github.com' } = env
    step(releaseOf(GITHUB_REF_NAME, GITHUB_REPOSITORY, GITHUB_SERVER_URL))
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    console.error(error.message)
    exit(1)
  }
}
