import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'

const FOLDER = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'wasm-serve-test-tools')

/** The folder of the programs. */
export const PROGRAMS = join(FOLDER, 'bin')

/** The version of Google's libraries and programs for registries. */
export const GOOGLE = 'v0.22.1'

/** The version of Kubernetes that the chart is installed into, and that of its libraries. */
export const KUBERNETES = 'v1.36.3'

/** The oldest Go that builds the programs: their `go.mod` files ask for it. */
export const GO = '1.26'

/** Whether a Go of this version, as `go env GOVERSION` prints it, builds the programs. */
export function isNewGo(version: string): boolean {
  const [, minor = 0] = /^go1\.(\d+)/.exec(version) ?? []
  return Number(minor) >= Number(GO.replace('1.', ''))
}

/** The module of the program for nodes and pods that are not there. */
export const KWOK = 'sigs.k8s.io/kwok@v0.8.0'

/** How each program is built: commands of the shell that write it to `$OUT`, which is also `$GOBIN`. */
export const BUILDS = {
  crane: `go install github.com/google/go-containerregistry/cmd/crane@${GOOGLE}`,
  distribution: goBuild('distribution', [
    'github.com/distribution/distribution/v3/registry@v3.1.2',
    'github.com/distribution/distribution/v3/registry/auth/htpasswd@v3.1.2',
    'github.com/distribution/distribution/v3/registry/auth/token@v3.1.2',
    'github.com/distribution/distribution/v3/registry/storage/driver/filesystem@v3.1.2',
  ]),
  'referrers-registry': goBuild('referrers-registry', [`github.com/google/go-containerregistry@${GOOGLE}`]),
  cosign3: 'go install github.com/sigstore/cosign/v3/cmd/cosign@v3.1.3; mv $OUT/cosign $OUT/cosign3',
  cosign2: 'go install github.com/sigstore/cosign/v2/cmd/cosign@v2.6.5; mv $OUT/cosign $OUT/cosign2',
  wkg: 'cargo install --root $OUT wkg@0.16.1; mv $OUT/bin/wkg $OUT/wkg',
  helm: 'go install helm.sh/helm/v3/cmd/helm@v3.22.0',
  helm4: 'go install helm.sh/helm/v4/cmd/helm@v4.3.1; mv $OUT/helm $OUT/helm4',
  kubeconform: 'go install github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0',
  'kube-score': 'go install github.com/zegl/kube-score/cmd/kube-score@v1.20.0',
  kwok: `go install sigs.k8s.io/kwok/cmd/kwok@${KWOK.split('@')[1]}`,
  etcd: goProgram('go.etcd.io/etcd/server/v3@v3.6.8', 'etcd'),
  'kube-apiserver': kubernetesBuild('kube-apiserver'),
  'kube-controller-manager': kubernetesBuild('kube-controller-manager'),
  'kube-scheduler': kubernetesBuild('kube-scheduler'),
  kubectl: kubernetesBuild('kubectl'),
  buildkitd: goProgram('github.com/moby/buildkit/cmd/buildkitd@v0.34.2'),
  'docker-buildx': goProgram('github.com/docker/buildx/cmd/buildx@v0.38.2', 'docker-buildx'),
  // Both stay where they are installed. The versions of a package that verdaccio asks for by a tag may be missing. It needs Node.js 22.
  verdaccio: `mkdir -p verdaccio; echo '{"dependencies":{"verdaccio":"6.10.4"},"overrides":{"node-fetch":"2.7.0"}}' > verdaccio/package.json
    npm install --prefix verdaccio --no-audit --no-fund
    printf '#!/bin/sh\\nexec node %s/verdaccio/node_modules/verdaccio/bin/verdaccio "$@"\\n' $PWD > $OUT/verdaccio; chmod +x $OUT/verdaccio`,
  'oras-python':
    'python3 -m venv oras; oras/bin/pip -q install oras==0.2.43; echo "#!/bin/sh" > $OUT/oras-python; echo "exec $PWD/oras/bin/python \\"\\$@\\"" >> $OUT/oras-python; chmod +x $OUT/oras-python',
} as const

export type RegistryProgram = keyof typeof BUILDS

/** Builds a program from the registry of its packages, unless it was built before. Two processes may do so at once. */
export async function buildProgram(name: RegistryProgram): Promise<void> {
  if (existsSync(join(PROGRAMS, name))) return
  mkdirSync(PROGRAMS, { recursive: true })
  const out = mkdtempSync(join(FOLDER, 'build-'))
  const sources = fileURLToPath(new URL('.', import.meta.url))
  const child = spawn('bash', ['-ec', BUILDS[name]], {
    cwd: FOLDER,
    env: { ...process.env, OUT: out, GOBIN: out, SOURCES: sources },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  const [problem, [code]] = await Promise.all([text(child.stderr), once(child, 'close')])
  if (code === 0) renameSync(join(out, name), join(PROGRAMS, name))
  rmSync(out, { recursive: true })
  if (code !== 0) throw new Error(`${name} cannot be built: ${BUILDS[name]}\n${problem}`)
}

/** @param name - The folder of the Go program, next to this file. */
function goBuild(name: string, packages: readonly string[]): string {
  return `cp $SOURCES/${name}/*.go $OUT; cd $OUT; go mod init ${name}; go get ${packages.join(' ')}; go build .`
}

/** A program whose own module replaces parts of it by folders: as a dependency it does not. @param path - Its package and version. */
function goProgram(path: string, name = path.replace(/.*\/(.*)@.*/, '$1')): string {
  return `cd $OUT; go mod init tools; go get ${path}; go build -o ${name} ${path.replace(/@.*/, '')}`
}

/** A program of Kubernetes: its own module replaces its libraries by folders, which a module elsewhere has to name by versions. */
function kubernetesBuild(program: string): string {
  const libraries = KUBERNETES.replace('v1', 'v0')
  return `cd $OUT; go mod init tools; go mod edit -require=k8s.io/kubernetes@${KUBERNETES}
    go mod download k8s.io/kubernetes@${KUBERNETES}
    for m in $(grep '=> ./staging' $(go env GOMODCACHE)/k8s.io/kubernetes@${KUBERNETES}/go.mod | grep -v sample-cli-plugin | awk '{ print $1 }')
    do go mod edit -replace=$m=$m@${libraries}; done
    v=k8s.io/component-base/version
    GOFLAGS=-mod=mod go build -ldflags "-s -w -X $v.gitVersion=${KUBERNETES} -X $v.gitMajor=1 -X $v.gitMinor=36" -o . k8s.io/kubernetes/cmd/${program}`
}
