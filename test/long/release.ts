import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parse } from 'yaml'
import { CLI } from '../support/cli.ts'
import { buildah, makeBaseImage } from '../support/containers.ts'
import { buildProgram, KUBERNETES, PROGRAMS } from '../support/registry-programs.ts'
import { openRegistryServer } from '../support/registry-server.ts'
import { startBuilder } from '../support/release/builder.ts'
import { openNpmRegistry } from '../support/release/npm-registry.ts'
import { type Ended, logOf, type Runner, runWorkflow, writePrograms } from '../support/release/workflow.ts'
import { openChecks } from './checks.ts'
import { keepSection, renderOrigin } from './page.ts'

/*
 * npx tsx test/long/release.ts
 *
 * Rehearses releases of a fork, whose registries and forge are empty: runs the commands of .github/workflows/release.yml, of what is
 * committed here. Signatures are made with a key, because the forge's identity is missing, and the image is built for this platform.
 * Needs root, and apt-get install buildah runc debootstrap docker-registry skopeo jq. Writes the results to the page of long tests, and
 * exits with 1 if one is not as expected.
 */

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const WORKFLOW = '.github/workflows/release.yml'
const REPOSITORY = 'Acme/Fork'
const COSIGN = 'v3.1.3'
const ANSWER = '{"message":"🦀 Hello Bob"}'

const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-release-'))
const origin = join(folder, 'origin')
const keys = join(folder, 'keys')
const forge = join(folder, 'forge')

const checks = openChecks()
const { add } = checks

/* Programs */

/** The folder of a Node.js as the workflow asks for it. */
const node = dirname(
  execFileSync('npx', ['-y', '-p', 'node@24', 'node', '-p', 'process.execPath'], { encoding: 'utf8' }).trim(),
)

/** Programs in place of those that the forge's machine has. cosign is there only where the job installs it. */
function writeStandIns(): { readonly always: string; readonly cosign: string } {
  const key = `--allow-http-registry --allow-insecure-registry --key ${keys}/release`
  const always = writePrograms(join(folder, 'programs'), {
    docker: `[ "$1" = buildx ] || exit 1; shift; exec ${PROGRAMS}/docker-buildx "$@"`,
    helm: `case $1 in push | pull) set -- "$@" --plain-http ;; esac; exec ${PROGRAMS}/helm "$@"`,
    // gh release view TAG --json body --jq .body, and gh release create TAG --verify-tag --title TAG --notes-file FILE FLAGS
    gh: `[ -n "$GH_TOKEN" ] || exit 4
      own=${forge}/$3
      case $2 in
        view) [ -d "$own" ] || { echo 'release not found' >&2; exit 1; }; cat "$own/notes" ;;
        create) [ "$4 $7" = '--verify-tag --notes-file' ]; mkdir -p "$own"; cp "$8" "$own/notes"; echo "\${@:9}" > "$own/flags" ;;
      esac`,
  })
  const cosign = writePrograms(join(folder, 'cosign'), {
    cosign: `words=() command=$1; shift
      while (($#)); do case $1 in --certificate-*) shift 2 ;; *) words+=("$1"); shift ;; esac; done
      case $command in
        verify*) exec ${PROGRAMS}/cosign3 $command ${key}.pub --insecure-ignore-tlog "\${words[@]}" ;;
        *) [ -z "$COSIGN_FAILS" ] && exec ${PROGRAMS}/cosign3 $command ${key}.key --signing-config ${keys}/no-log.json "\${words[@]}" ;;
      esac`,
  })
  return { always, cosign }
}

function must(command: string, cwd = folder, env: NodeJS.ProcessEnv = {}): string {
  const { status, stdout, stderr } = spawnSync('bash', ['-ec', command], {
    cwd,
    env: { ...process.env, COSIGN_PASSWORD: '', ...env },
    encoding: 'utf8',
  })
  if (status !== 0) throw new Error(`${command}\n${stdout}\n${stderr}`)
  return stdout.trim()
}

/** The code of the error that a command ends with, or what it prints. */
function outcome(command: string): string {
  const { stdout, stderr } = spawnSync('bash', ['-c', command], { cwd: folder, encoding: 'utf8' })
  return /WASM_SERVE_\w+/.exec(stderr)?.[0] ?? (stdout.trim() || stderr.trim())
}

/* The fork's repository */

function cloneOrigin(base: string): void {
  must(
    `git clone -q ${ROOT} ${origin} && cd ${origin} && git config user.name A && git config user.email a@b.c`,
  )
  symlinkSync(join(ROOT, 'node_modules'), join(origin, 'node_modules'))
  const dockerfile = join(origin, 'deploy/docker/Dockerfile')
  const own = readFileSync(dockerfile, 'utf8').replace(/^(ARG NODE_IMAGE=).*$/m, `$1${base}`)
  writeFileSync(dockerfile, own)
  commit('base')
}

function commit(message: string): void {
  must(`git -c commit.gpgsign=false commit -qam ${message} --allow-empty`, origin)
}

/** What the checklist says for a version. */
function tagVersion(version: string, notes: string): void {
  const path = join(origin, 'CHANGELOG.md')
  const section = `## [Unreleased]\n\n## [${version}] - 2026-01-01\n\n### Fixed\n\n- ${notes}\n\n`
  writeFileSync(path, readFileSync(path, 'utf8').replace(/## \[Unreleased\]\n\n/, section))
  must(`npm version ${version} --no-git-tag-version --allow-same-version && npx tsx scripts/chart.ts`, origin)
  commit(version)
  must(`git -c tag.gpgsign=false tag -f v${version}`, origin)
}

/* Rehearsal */

const stops: (() => Promise<void>)[] = []
const registry = await openRegistryServer('docker-registry')
stops.push(registry.stop)
const image = `${registry.host}/acme/fork`
const chart = `${image}/charts/wasm-serve`

function tagsOf(name: string): string[] {
  const ran = spawnSync('skopeo', ['list-tags', '--tls-verify=false', `docker://${name}`], {
    encoding: 'utf8',
  })
  if (ran.status !== 0) return []
  const { Tags: tags } = JSON.parse(ran.stdout) as { Tags: string[] }
  return tags.filter((tag) => !tag.startsWith('sha256-')).sort()
}

/** The tags that cosign keeps signatures by: one for each digest, and as many signatures in each. */
function signaturesOf(name: string): string[] {
  const { Tags: tags } = JSON.parse(must(`skopeo list-tags --tls-verify=false docker://${name}`)) as {
    Tags: string[]
  }
  return tags.flatMap((tag) => {
    if (!tag.startsWith('sha256-')) return []
    const { manifests } = JSON.parse(must(`skopeo inspect --raw --tls-verify=false docker://${name}:${tag}`))
    return [`${tag.slice(0, 15)}: ${manifests.length}`]
  })
}

function digestOf(reference: string): string {
  return must(
    `skopeo inspect --raw --tls-verify=false docker://${reference} | sha256sum | sed 's/ .*//;s/^/sha256:/'`,
  )
}

/** Whether wasm-serve accepts the signature of an artifact, which is no plug-in. */
function verified(reference: string, key: string): string {
  const trust = `--trust ${registry.host}/=${keys}/${key}.pub --cache-folder ${mkdtempSync(join(folder, 'cache-'))}`
  return outcome(`node ${CLI} inspect oci://${reference} ${trust}`)
}

/** An artifact that is signed is looked at after its signature: then what it has is no plug-in. */
const NO_PLUG_IN = 'WASM_SERVE_ARTIFACT_UNSUPPORTED'

async function rehearse(): Promise<void> {
  mkdirSync(keys)
  mkdirSync(forge)
  must(
    `${PROGRAMS}/cosign3 generate-key-pair --output-key-prefix release && ${PROGRAMS}/cosign3 generate-key-pair --output-key-prefix other && ${PROGRAMS}/cosign3 signing-config create --out no-log.json`,
    keys,
  )
  const base = `${registry.host}/library/node:24-bookworm-slim`
  buildah('push', '--quiet', '--tls-verify=false', makeBaseImage(), `docker://${base}`)
  const builder = await startBuilder(join(folder, 'builder'), registry.host)
  stops.push(builder.stop)
  const npm = await openNpmRegistry(join(folder, 'npm'), node)
  stops.push(npm.stop)
  const { always, cosign } = writeStandIns()
  cloneOrigin(base)

  const userConfig = join(folder, 'npmrc')
  writeFileSync(userConfig, '')
  let tag = ''
  const runner = (more: NodeJS.ProcessEnv, passed: readonly string[]): Runner => ({
    passed,
    origin,
    folder,
    env: {
      ...process.env,
      PATH: `${always}:${node}:${process.env.PATH}`,
      COSIGN_PASSWORD: '',
      BUILDX_CONFIG: join(folder, 'buildx'),
      DOCKER_CONFIG: join(folder, 'docker'),
      HELM_CONFIG_HOME: join(folder, 'helm'),
      CI: 'true',
      GITHUB_ACTIONS: 'true',
      GITHUB_ACTOR: 'maintainer',
      GITHUB_REPOSITORY: REPOSITORY,
      GITHUB_SERVER_URL: 'https://github.com',
      GITHUB_REF_NAME: tag,
      GITHUB_SHA: must(`git rev-parse ${tag}^{commit}`, origin),
      GITHUB_WORKFLOW_REF: `${REPOSITORY}/${WORKFLOW}@refs/tags/${tag}`,
      RELEASE_REGISTRY: registry.host,
      RELEASE_PLATFORMS: `linux/${process.arch === 'arm64' ? 'arm64' : 'amd64'}`,
      ...more,
    },
    identity: npm.identity,
    actions: {
      'actions/setup-node': (step, env) => {
        add('the rehearsal uses the Node.js version of the workflow', step.with?.['node-version'], 24)
        return env
      },
      'sigstore/cosign-installer': (step, env) => {
        add('the rehearsal uses the cosign version of the workflow', step.with?.['cosign-release'], COSIGN)
        return { ...env, PATH: `${cosign}:${env.PATH}` }
      },
    },
    standIns: {
      'npm ci': `ln -s ${join(ROOT, 'node_modules')} node_modules`, // those of the lock file, too
      'Sign in to the registry': 'true',
      'Make a builder, which can run programs of arm64': `docker buildx inspect rehearsal || docker buildx create --use --name rehearsal --driver remote unix://${builder.socket}`,
      'node scripts/release.ts npm': `NPM_CONFIG_REGISTRY=${npm.url} NPM_CONFIG_USERCONFIG=${userConfig} node scripts/release.ts npm`,
      'node scripts/release.ts image': `NPM_CONFIG_REGISTRY=${npm.url} node scripts/release.ts image`,
      'node scripts/release.ts notes': `NPM_CONFIG_REGISTRY=${npm.url} node scripts/release.ts notes`,
    },
    replaced: { NPM_CONFIG_PROVENANCE: 'false' },
  })
  const release = async (
    version: string,
    more: NodeJS.ProcessEnv = {},
    passed: readonly string[] = [],
  ): Promise<Ended[]> => {
    tag = `v${version}`
    console.log(`release ${version}`)
    const ended = await runWorkflow(WORKFLOW, tag, runner(more, passed))
    const { ci: _, ...own } = ended
    return Object.values(own)
  }
  const everything = Array<Ended>(5).fill('passed')
  const failedAt = (index: number) =>
    everything.map((_, at): Ended => (at < index ? 'passed' : at === index ? 'failed' : 'skipped'))
  const published = async () => ({
    npm: (await npm.get('wasm-serve'))?.['dist-tags'] ?? {},
    image: tagsOf(image),
    chart: tagsOf(chart),
    notes: must(`ls ${forge}`).split('\n').filter(Boolean),
  })
  const nothing = { npm: {}, image: [], chart: [], notes: [] }

  tagVersion('0.1.0', 'First.')
  add('the files name another repository: the first job fails', await release('0.1.0'), failedAt(0))
  add('it says how to name this one', /own-address\.sh Acme\/Fork/.test(logOf({ folder })), true)
  must(`bash scripts/own-address.sh ${REPOSITORY} && npx tsx scripts/chart.ts --check`, origin)
  commit('address')
  must('git -c tag.gpgsign=false tag -f v0.1.0', origin)

  add('npm does not know the package: its job fails', await release('0.1.0'), failedAt(1))
  add('then nothing is published', await published(), nothing)

  must(
    `mkdir placeholder && cd placeholder && echo '{"name":"wasm-serve","version":"0.0.0"}' > package.json && npm publish --registry ${npm.direct} --${npm.direct.replace('http:', '')}:_authToken=${npm.token}`,
  )
  npm.trust()
  add('the first release, after a placeholder by hand', await release('0.1.0'), everything)
  const first = await published()
  add('it is everywhere', first, {
    npm: { latest: '0.1.0' },
    image: ['0.1', '0.1.0', 'latest'],
    chart: ['0.1.0'],
    notes: ['v0.1.0'],
  })
  checkArtifacts(npm.direct)

  const before = [digestOf(`${image}:0.1.0`), digestOf(`${chart}:0.1.0`), signaturesOf(image)]
  add('the same release again', await release('0.1.0'), everything)
  add(
    'changes nothing',
    [await published(), digestOf(`${image}:0.1.0`), digestOf(`${chart}:0.1.0`), signaturesOf(image)],
    [first, ...before],
  )

  tagVersion('0.2.0', 'Second.')
  add(
    'a second release, which cannot sign: the job of the image fails',
    await release('0.2.0', { COSIGN_FAILS: 'yes' }),
    failedAt(2),
  )
  add('no tag names an image without a signature', tagsOf(image), first.image)
  add('the same release again', await release('0.2.0'), everything)
  add('it has the tags, and the first one keeps its own', await published(), {
    npm: { latest: '0.2.0' },
    image: ['0.1', '0.1.0', '0.2', '0.2.0', 'latest'],
    chart: ['0.1.0', '0.2.0'],
    notes: ['v0.1.0', 'v0.2.0'],
  })
  add(
    'the images of the tags',
    [digestOf(`${image}:0.1`), digestOf(`${image}:latest`)],
    [before[0], digestOf(`${image}:0.2.0`)],
  )

  tagVersion('1.0.0-rc.1', 'Candidate.')
  const latest = digestOf(`${image}:latest`)
  add('a prerelease', await release('1.0.0-rc.1'), everything)
  add(
    'moves `next` only',
    [(await published()).npm, tagsOf(image), digestOf(`${image}:latest`)],
    [
      { latest: '0.2.0', next: '1.0.0-rc.1' },
      ['0.1', '0.1.0', '0.2', '0.2.0', '1.0.0-rc.1', 'latest'],
      latest,
    ],
  )
  add('is marked as one', must(`cat ${forge}/v1.0.0-rc.1/flags ${forge}/v0.2.0/flags`).split('\n'), [
    '--prerelease --latest=false',
    '--latest=true',
  ])

  tagVersion('1.0.0', 'Third.')
  add('a major release', await release('1.0.0'), everything)
  must('git checkout -q v0.2.0', origin)
  tagVersion('0.2.1', 'Fix of an older line.')
  add('a fix of an older line', await release('0.2.1'), everything)
  add(
    'the older line moves its own tags only',
    [(await published()).npm, digestOf(`${image}:0.2`), digestOf(`${image}:latest`), digestOf(`${image}:1`)],
    [
      { latest: '1.0.0', next: '1.0.0-rc.1', 'latest-0.2': '0.2.1' },
      digestOf(`${image}:0.2.1`),
      digestOf(`${image}:1.0.0`),
      digestOf(`${image}:1.0`),
    ],
  )
  add('its notes are not the latest', must(`cat ${forge}/v0.2.1/flags`), '--latest=false')

  // A tag that is moved to other sources.
  must('git checkout -q v1.0.0 && echo Other. >> LICENSE', origin)
  tagVersion('1.0.0', 'Other.')
  const all = await published()
  const jobs = ['check', 'npm', 'image', 'chart', 'notes']
  for (const [index, job] of jobs.entries())
    if (index > 0)
      add(
        `a tag that was moved to other sources: its job ${job} fails`,
        await release('1.0.0', {}, jobs.slice(0, index)),
        failedAt(index),
      )
  add('then nothing is published', await published(), all)
}

/** What was published by the first release. */
function checkArtifacts(npmUrl: string): void {
  for (const [name, reference] of [
    ['image', `${image}:0.1.0`],
    ['chart', `${chart}:0.1.0`],
  ]) {
    if (reference === undefined) continue
    add(`wasm-serve accepts the signature of the ${name}`, verified(reference, 'release'), NO_PLUG_IN)
    add(
      `wasm-serve refuses it with another key`,
      verified(reference, 'other'),
      'WASM_SERVE_SIGNATURE_INVALID',
    )
  }
  const raw = JSON.parse(must(`skopeo inspect --raw --tls-verify=false docker://${image}:0.1.0`))
  const [own] = raw.manifests.filter(
    ({ platform }: { platform: { os: string } }) => platform.os !== 'unknown',
  )
  add("the image has BuildKit's provenance", raw.manifests.length, 2)
  const flags = `--key ${keys}/release.pub --insecure-ignore-tlog --allow-http-registry`
  const attested = must(
    `${PROGRAMS}/cosign3 verify-attestation ${flags} --type cyclonedx ${image}@${own.digest} | jq -r .payload | base64 -d | jq -r '.predicate.metadata.component.name'`,
  )
  add('the list of its parts is attested', attested, 'wasm-serve')
  const config = JSON.parse(
    must(`skopeo inspect --config --tls-verify=false docker://${image}@${own.digest}`),
  )
  const { Labels: labels } = config.config
  add(
    'its labels name the repository and the version',
    [labels['org.opencontainers.image.source'], labels['org.opencontainers.image.version']],
    ['https://github.com/Acme/Fork', '0.1.0'],
  )
  add(
    'its base is named by digest',
    /^localhost:\d+\/library\/node:24-bookworm-slim@sha256:[0-9a-f]{64}$/.test(
      labels['org.opencontainers.image.base.name'],
    ),
    true,
  )
  const rendered = must(
    `${PROGRAMS}/helm template r oci://${chart} --version 0.1.0 --plain-http --kube-version ${KUBERNETES}`,
  )
  add(
    'the chart of the registry names the image',
    /image: "?(ghcr\.io\/\S+?)"?$/m.exec(rendered)?.[1],
    'ghcr.io/acme/fork:0.1.0',
  )
  const { annotations } = JSON.parse(must(`skopeo inspect --raw --tls-verify=false docker://${chart}:0.1.0`))
  add(
    'the chart names its repository, so that the forge links both',
    annotations['org.opencontainers.image.source'],
    'https://github.com/Acme/Fork',
  )
  add(
    'the release notes equal the section of the changelog',
    must(`cat ${forge}/v0.1.0/notes`).startsWith('### Fixed\n\n- First.'),
    true,
  )
  const user = join(folder, 'user')
  mkdirSync(user)
  must(
    `npm pack wasm-serve@0.1.0 --registry ${npmUrl} && npm init -y && npm install --no-audit --no-fund ./wasm-serve-0.1.0.tgz`,
    user,
  )
  add(
    'the package of the registry serves',
    must('npx wasm-serve call node_modules/wasm-serve/plugins/hello/hello.wasm -i Bob', user),
    ANSWER,
  )
  const { repository } = parse(readFileSync(join(user, 'node_modules/wasm-serve/package.json'), 'utf8'))
  add('it names the repository', repository.url, 'git+https://github.com/Acme/Fork.git')
}

function render(): string {
  return [
    '## Releases',
    '',
    'The commands of `release.yml` make releases of a fork, from empty registries of packages and images on (`npx tsx test/long/release.ts`). verdaccio',
    'stands for npm, with an exchange of tokens as npm has it; docker-registry for GHCR; a program that keeps files for the forge. BuildKit builds the image.',
    '',
    'Not tried: provenance of npm and signatures without a key, which ask Sigstore; the image of the other platform; signing in to GHCR.',
    '',
    `${renderOrigin()}. ${checks.renderCount()}.`,
    '',
    ...new Set(checks.renderTable()), // some are made after each release
  ].join('\n')
}

for (const name of ['docker-buildx', 'buildkitd', 'verdaccio', 'helm', 'cosign3'] as const)
  await buildProgram(name)
try {
  await rehearse()
  keepSection('release', render())
  if (!checks.areRight) process.exitCode = 1
} finally {
  if (existsSync(join(folder, 'log')))
    writeFileSync(join(tmpdir(), 'wasm-serve-release.log'), logOf({ folder }))
  for (const stop of stops) await stop()
  rmSync(folder, { recursive: true, force: true })
}
