import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { parse, parseAllDocuments } from 'yaml'
import { temporaryFolder } from '../support/admin-api.ts'
import { run } from '../support/cli.ts'
import { guestBytes } from '../support/guest.ts'
import {
  CHART,
  configOf,
  conform,
  containerOf,
  helm,
  type KubernetesObject,
  one,
  render,
  renderText,
} from '../support/helm.ts'
import { blocksOf } from '../support/pages.ts'
import { buildProgram, KUBERNETES } from '../support/registry-programs.ts'
import { describeWith } from '../support/tools.ts'

/* Values in the shapes that operators know, of other charts and of older ones. */

const VALUES_OF_RELEASES = new URL('../support/chart-values/', import.meta.url)

/** `OWNER/REPOSITORY` of the image. */
const OWN: string = parse(readFileSync(join(CHART, 'values.yaml'), 'utf8')).image.repository.replace(
  'ghcr.io/',
  '',
)

/** The notes of an installation, which Helm shows only if there is a cluster. */
async function notes(...flags: readonly string[]): Promise<string> {
  const chart = join(temporaryFolder(), 'wasm-serve')
  cpSync(CHART, chart, { recursive: true })
  const text = readFileSync(join(chart, 'templates/NOTES.txt'), 'utf8')
  const object =
    'apiVersion: v1\nkind: Notes\nmetadata: { name: notes }\ntext: {{ include "notes" . | quote }}\n'
  writeFileSync(join(chart, 'templates/notes.yaml'), `{{ define "notes" }}${text}{{ end }}${object}`)
  const rendered = await helm(
    'template',
    'r',
    chart,
    `--kube-version=${KUBERNETES}`,
    '-s',
    'templates/notes.yaml',
    ...flags,
  )
  if (!rendered.ok) throw new Error(rendered.text)
  return parse(rendered.text).text.replaceAll(/\s+/g, ' ')
}

/** Ports of the rules for egress. */
async function ports(...values: readonly string[]): Promise<number[][]> {
  const { spec } = one(await render(...values.map((value) => `--set=${value}`)), 'NetworkPolicy')
  return (spec.egress ?? []).map(({ ports }: KubernetesObject) =>
    ports.map(({ port }: { port: number }) => port),
  )
}

/** The flag for values as an object. */
function valuesFlag(values: unknown): string {
  const path = join(temporaryFolder(), 'values.json')
  writeFileSync(path, JSON.stringify(values))
  return `--values=${path}`
}

describeWith(['go'], () => {
  beforeAll(() => Promise.all((['helm', 'kubeconform'] as const).map(buildProgram)), 600_000)

  test.each([
    ['ingress.hosts[0].host=a.example,ingress.hosts[0].paths=/', '/ingress/hosts/0'],
    ['ingress.hosts[0].hots=a.example', '/ingress/hosts/0'],
    ['ingress.tls[0]=a', '/ingress/tls/0'],
    ['ingress.path=foo', '/ingress/path'],
    ['httpRoute.hostnames[0].x=a', '/httpRoute/hostnames/0'],
    ['httpRoute.parentRefs[0]=a', '/httpRoute/parentRefs/0'],
    ['imagePullSecrets[0].nmae=a', '/imagePullSecrets/0'],
    ['env[0].nme=A', '/env/0'],
    ['env[0]=A', '/env/0'],
    ['env[0].name=A,env[0].value=1', '/env/0/value'],
    ['envFrom[0]=x', '/envFrom/0'],
    ['strategy.type=Foo', '/strategy/type'],
    ['topologySpreadConstraints[0]=a', '/topologySpreadConstraints/0'],
    ['tolerations[0]=a', '/tolerations/0'],
    ['tolerations[0].effekt=NoSchedule', '/tolerations/0'],
    ['extraVolumes[0].emptyDir.sizeLimit=1Mi', '/extraVolumes/0'],
    ['extraVolumeMounts[0].name=a', '/extraVolumeMounts/0'],
    ['sidecars[0].image=a', '/sidecars/0'],
    ['service.port=70000', '/service/port'],
    ['service.ipFamilies[0]=IPv5', '/service/ipFamilies/0'],
    ['service.loadBalancerSourceRanges[0]=10.0.0.1', '/service/loadBalancerSourceRanges/0'],
    ['networkPolicy.from[0].namespace=a', '/networkPolicy/from/0'],
    ['networkPolicy.publicPorts[0]=https', '/networkPolicy/publicPorts/0'],
    ['image.digest=abc', '/image/digest'],
    ['plugin=ghcr.io/acme/hello:1', '/plugin'],
    ['plugin=docker://ghcr.io/acme/hello:1', '/plugin'],
    ['hostAliases[0].ip=10.0.0.1', '/hostAliases/0'],
    ['serviceMonitor.interval=often', '/serviceMonitor/interval'],
    ['extraObjects[0].kind=ConfigMap', '/extraObjects/0'],
    ['resources.limit.memory=1Gi', '/resources'],
    ['probes.liveness.httpGet.path=/', '/probes/liveness'],
  ])('%s is refused at %s', async (values, path) => {
    const { ok, text } = await helm('template', 'r', CHART, `--kube-version=${KUBERNETES}`, `--set=${values}`)
    expect([ok, text]).toEqual([false, expect.stringContaining(`at '${path}'`)])
  })

  test.each([
    'config.store=redis://:s3cret@redis:6379',
    'config.store=rediss://default:s3cret@redis',
    'fleet.url=redis://:s3cret@redis',
    'config.fleet.url=redis+sentinel://:s3cret@a:26379/main',
    'config.plugins.a.source=https://u:s3cret@x.example/a.wasm',
    'config.routes[0].plugin=https://s3cret@x.example/a.wasm',
    'config.jwt.jwksUrl=https://u:s3cret@x.example/keys',
    'plugin=https://u:s3cret@x.example/a.wasm',
    'config.plugins.a.source=a.wasm,config.plugins.a.config.dsn=postgres://u:s3cret@db/shop',
  ])('%s is refused with its path, and without the secret', async (values) => {
    const { ok, text } = await helm('template', 'r', CHART, `--kube-version=${KUBERNETES}`, `--set=${values}`)
    const [, path = ''] = /(?:^|,)([^,]+)=[a-z+]+:\/\//.exec(values) ?? []
    expect([ok, text]).toEqual([false, expect.stringContaining(`${path}: the URL`)])
    expect(text).not.toContain('s3cret')
  })

  test('a password in a URL may be a variable, and a digest is none', async () => {
    const store = `redis://default:\${REDIS_PASSWORD}@redis:6380`
    const source = `oci://a.example/b@sha256:${'a'.repeat(64)}`
    const objects = await render(valuesFlag({ config: { store, plugins: { a: { source } } } }))
    expect(configOf(objects)).toMatchObject({ store, plugins: { a: { source } } })
  })

  test.each(readdirSync(VALUES_OF_RELEASES))('with --reuse-values, the values of %s work', async (name) => {
    // Helm then renders the new templates with all values of the old release, and without the new defaults.
    const chart = join(temporaryFolder(), 'wasm-serve')
    cpSync(CHART, chart, { recursive: true })
    cpSync(new URL(name, VALUES_OF_RELEASES), join(chart, 'values.yaml'))
    const { ok, text } = await helm('template', 'r', chart, `--kube-version=${KUBERNETES}`)
    expect([ok, conform(text)]).toEqual([true, [0, '']])
    const kinds = (text: string) => parseAllDocuments(text).map((document) => document.toJSON()?.kind)
    expect(kinds(text)).toEqual(kinds(await renderText()))
  })

  describe('a value that is null or missing', () => {
    /** The names of all values, also of groups. */
    const paths = (values: object, before = ''): string[] =>
      Object.entries(values).flatMap(([name, value]) => {
        const isGroup = typeof value === 'object' && value !== null && !Array.isArray(value)
        return [before + name, ...(isGroup ? paths(value, `${before}${name}.`) : [])]
      })

    test('has its default, or is left out', async () => {
      const { ok, text } = await helm('show', 'values', CHART)
      const all = paths(parse(text)).filter((path) => !path.includes('/'))
      expect([ok, all.length > 150]).toEqual([true, true])
      const results = []
      for (const path of all) {
        const { ok, text } = await helm(
          'template',
          'r',
          CHART,
          `--kube-version=${KUBERNETES}`,
          `--set=${path}=null`,
        )
        if (!ok) results.push(`${path}: ${text}`)
      }
      expect(results).toEqual([])
    }, 600_000)

    test('is accepted by the schemas of Kubernetes', async () => {
      const { text } = await helm('show', 'values', CHART)
      const nothing = Object.fromEntries(Object.keys(parse(text)).map((key) => [key, null]))
      const rendered = await renderText(valuesFlag(nothing))
      expect(conform(rendered)).toEqual([0, ''])
      expect(rendered).toContain('kind: NetworkPolicy')
    })

    test('is in no object', async () => {
      const chart = join(temporaryFolder(), 'wasm-serve')
      cpSync(CHART, chart, { recursive: true })
      // In the values of an older release, null is no change of a default.
      const values = parse(readFileSync(join(chart, 'values.yaml'), 'utf8'))
      values.resources.limits.memory = null
      values.podSecurityContext.runAsUser = null
      values.config.logLevel = null
      values.podLabels = { team: null }
      values.tolerations = [{ key: 'a', operator: 'Exists', value: null }]
      writeFileSync(join(chart, 'values.yaml'), JSON.stringify(values))
      const { ok, text } = await helm('template', 'r', chart, `--kube-version=${KUBERNETES}`)
      expect([ok, text]).toEqual([true, expect.not.stringContaining('team')])
      expect(text).not.toMatch(/: null$/m)
      expect(text).not.toContain('max-old-space-size')
    })

    test('is no number of pods', async () => {
      const objects = await render('--set=replicas=null')
      expect(one(objects, 'Deployment').spec).not.toHaveProperty('replicas')
      expect(one(objects, 'PodDisruptionBudget').spec.maxUnavailable).toBe(1)
    })
  })

  test('the chart can be a dependency with a condition, an alias and global values', async () => {
    const folder = temporaryFolder()
    const dependency = { name: 'wasm-serve', version: '*', repository: `file://${CHART}` }
    const chart = {
      ...{ apiVersion: 'v2', name: 'shop', version: '1.0.0' },
      dependencies: [
        { ...dependency, condition: 'wasm-serve.enabled' },
        { ...dependency, alias: 'second', condition: 'second.enabled' },
      ],
    }
    writeFileSync(join(folder, 'Chart.yaml'), JSON.stringify(chart))
    expect(await helm('dependency', 'update', folder)).toMatchObject({ ok: true })
    const objects = async (set: string) => {
      const { ok, text } = await helm('template', 'r', folder, `--kube-version=${KUBERNETES}`, `--set=${set}`)
      expect([ok, text]).toEqual([true, expect.any(String)])
      const all = parseAllDocuments(text).flatMap((document) => document.toJSON() ?? [])
      return all.filter(({ kind }: KubernetesObject) => kind === 'Deployment')
    }
    const global =
      'global.imageRegistry=a.example,global.imagePullSecrets[0].name=b,global.other=1,tags.x=true'
    const both = await objects(`wasm-serve.enabled=true,second.enabled=true,${global}`)
    expect(both.map(({ metadata }: KubernetesObject) => metadata.name).sort()).toEqual([
      'r-second',
      'r-wasm-serve',
    ])
    for (const { spec } of both) {
      expect(spec.template.spec.containers[0].image).toContain(`a.example/${OWN}:`)
      expect(spec.template.spec.imagePullSecrets).toEqual([{ name: 'b' }])
    }
    expect(await objects('wasm-serve.enabled=false,second.enabled=true')).toHaveLength(1)
    expect(await objects('wasm-serve.keda=null,wasm-serve.networkPolicy=null')).toHaveLength(2)
  })

  test.each([
    ['image.tag=v1', `ghcr.io/${OWN}:v1`],
    ['image.tag=v1,image.registry=a.example:5000', `a.example:5000/${OWN}:v1`],
    ['image.tag=v1,image.registry=a.example/mirror/', `a.example/mirror/${OWN}:v1`],
    ['image.tag=v1,image.registry=a,global.imageRegistry=b', `b/${OWN}:v1`],
    ['image.tag=v1,image.registry=a,image.repository=acme/serve', 'a/acme/serve:v1'],
    ['image.tag=v1,image.registry=a,image.repository=localhost:5000/acme/serve', 'a/acme/serve:v1'],
    [`image.tag=v1@sha256:${'0'.repeat(64)}`, `ghcr.io/${OWN}:v1@sha256:${'0'.repeat(64)}`],
    [`image.digest=sha256:${'0'.repeat(64)},image.repository=a/b`, `a/b@sha256:${'0'.repeat(64)}`],
  ])('%s: the image is %s, also of the pods around', async (values, image) => {
    const objects = await render(`--set=${values},cache.enabled=true`)
    const { containers, initContainers } = one(objects, 'Deployment').spec.template.spec
    const [{ image: ofTest }] = one(objects, 'Pod').spec.containers
    expect([containers[0].image, initContainers[0].image, ofTest]).toEqual([image, image, image])
  })

  test('versions of a chart that was packed again become labels and a tag, though they are long', async () => {
    const chart = join(temporaryFolder(), 'wasm-serve')
    cpSync(CHART, chart, { recursive: true })
    const file = join(chart, 'Chart.yaml')
    const version = `0.1.0-pr.${'branch-'.repeat(8)}1+a076bb44441a`
    const versions = `version: ${version}\nappVersion: 0.1.0+build7`
    writeFileSync(file, readFileSync(file, 'utf8').replace(/^version: .*\nappVersion: .*$/m, versions))
    const { ok, text } = await helm('template', 'r', chart, `--kube-version=${KUBERNETES}`)
    expect([ok, conform(text)]).toEqual([true, [0, '']])
    const labels = parseAllDocuments(text).flatMap((document) => {
      const { metadata, spec }: KubernetesObject = document.toJSON()
      return Object.values<string>({ ...metadata.labels, ...spec?.template?.metadata.labels })
    })
    expect(labels).toContain('0.1.0_build7')
    expect(labels.filter((label) => !/^[A-Za-z\d]([\w.-]{0,61}[A-Za-z\d])?$/.test(label))).toEqual([])
    expect(text).toContain(`image: ghcr.io/${OWN}:0.1.0_build7\n`)
  })

  test('names of pull secrets may be texts or objects, and none is there twice', async () => {
    const objects = await render(
      '--set=imagePullSecrets[0]=a,imagePullSecrets[1].name=b,global.imagePullSecrets[0]=b',
    )
    const wanted = [{ name: 'b' }, { name: 'a' }]
    expect(one(objects, 'Deployment').spec.template.spec.imagePullSecrets).toEqual(wanted)
    expect(one(objects, 'Pod').spec.imagePullSecrets).toEqual(wanted)
  })

  test('hosts of an Ingress may be texts, or objects with paths', async () => {
    const hosts = [
      'a.example',
      { host: 'b.example' },
      { host: 'c.example', paths: [{ path: '/x', pathType: 'Exact' }, { path: '/y' }] },
    ]
    const objects = await render(valuesFlag({ ingress: { enabled: true, path: '/shop', hosts } }))
    const rules = one(objects, 'Ingress').spec.rules.map(({ host, http }: KubernetesObject) => [
      host,
      http.paths.map(({ path, pathType }: KubernetesObject) => `${pathType} ${path}`),
    ])
    expect(rules).toEqual([
      ['a.example', ['Prefix /shop']],
      ['b.example', ['Prefix /shop']],
      ['c.example', ['Exact /x', 'Prefix /y']],
    ])
  })

  test('ports follow the URLs that the values name', async () => {
    expect(await ports('plugin=oci://registry.example:5050/acme/hello:1')).toEqual([
      [53, 53],
      [443, 5050],
    ])
    const source = 'config.plugins.a.source'
    expect(await ports(`${source}=https://a.example:8443/a.wasm`)).toEqual([
      [53, 53],
      [443, 8443],
    ])
    expect(await ports(`${source}=oci://\${REGISTRY}:5000/a`)).toEqual([
      [53, 53],
      [443, 5000],
    ])
    expect(await ports('config.store=rediss://a:6380')).toEqual([
      [53, 53],
      [6379, 6380],
    ])
    expect(await ports('fleet.url=redis+sentinel://a:26379\\,b:26380/main')).toEqual([
      [53, 53],
      [6379, 26379, 26380],
    ])
    const collector = 'env[0].name=OTEL_EXPORTER_OTLP_ENDPOINT,env[0].value'
    expect(await ports(`${collector}=http://collector.tracing:4317`)).toEqual([
      [53, 53],
      [4318, 4317],
    ])
    expect(await ports('networkPolicy.dnsPorts[0]=5353')).toEqual([[5353, 5353]])
    expect(await ports('networkPolicy.dnsPorts=null')).toEqual([[53, 53]])
  })

  test('addresses that are not public are a value', async () => {
    const flag = valuesFlag({ plugin: 'oci://a.example/b', networkPolicy: { except: ['169.254.0.0/16'] } })
    const [, rule] = one(await render(flag), 'NetworkPolicy').spec.egress
    expect(rule.to).toEqual([
      { ipBlock: { cidr: '0.0.0.0/0', except: ['169.254.0.0/16'] } },
      { ipBlock: { cidr: '::/0' } },
    ])
    // An API server refuses an exception of the other family.
    const [, both] = one(await render('--set=plugin=oci://a.example/b'), 'NetworkPolicy').spec.egress
    const families = both.to.map(
      ({ ipBlock }: KubernetesObject) => new Set(ipBlock.except.map((range: string) => range.includes(':'))),
    )
    expect(families).toEqual([new Set([false]), new Set([true])])
    const open = await renderText(valuesFlag({ networkPolicy: { egress: [{}] } }))
    expect(conform(open)).toEqual([0, ''])
    expect(open).toContain('\n    - {}')
  })

  test('numbers of users as OpenShift has them stay numbers', async () => {
    const objects = await render(
      valuesFlag({ podSecurityContext: { runAsUser: 1_000_680_000, fsGroup: 1_000_680_000 } }),
    )
    expect(one(objects, 'Deployment').spec.template.spec.securityContext).toMatchObject({
      runAsUser: 1_000_680_000,
      fsGroup: 1_000_680_000,
    })
  })

  test('who may read the metrics may not send requests', async () => {
    const from = [{ namespaceSelector: { matchLabels: { team: 'shop' } } }]
    const { spec } = one(await render(valuesFlag({ networkPolicy: { from } })), 'NetworkPolicy')
    const [requests, metrics] = spec.ingress
    expect(requests).toMatchObject({ ports: [{ port: 'http' }], from: [from[0], { podSelector: {} }] })
    expect(metrics).toMatchObject({ ports: [{ port: 'probes' }] })
    expect(JSON.stringify(requests)).not.toContain('monitoring')
  })

  test('the notes say what the pods can reach, and warn of registries that may be private', async () => {
    expect(await notes('--set=plugin=oci://ghcr.io/acme/hello:1')).toMatch(
      /lets the pods reach: - DNS, port 53: .*- port 443 of public addresses/,
    )
    expect(await notes('--set=plugin=oci://ghcr.io/acme/hello:1')).not.toContain('WARNING')
    for (const host of [
      '10.1.2.3:5000',
      '172.20.0.1',
      'registry:5000',
      'registry.tools.svc:5000',
      'r.acme.internal',
    ])
      expect(await notes(`--set=plugin=oci://${host}/acme/hello:1`)).toContain(
        `WARNING: ${host} may have a private`,
      )
    expect(await notes(`--values=${join(CHART, 'ci/openshift-values.yaml')}`)).not.toContain('WARNING')
    expect(await notes('--set=networkPolicy.enabled=false')).not.toContain('NetworkPolicy')
    const values = 'config.store=redis://a:7000,env[0].name=OTEL_EXPORTER_OTLP_ENDPOINT,env[0].value=http://c'
    expect(await notes(`--set=${values}`)).toMatch(
      /port 6379, 7000 of any address, for stores: .*port 4318 of any address, for traces/,
    )
    const hosts = 'ingress.enabled=true,ingress.hosts[0].host=a.example,ingress.hosts[0].paths[0].path=/shop'
    expect(await notes(`--set=${hosts}`)).toContain('curl http://a.example/shop -d Bob')
  })

  test('a budget has one of both limits, and 0 is one', async () => {
    const budget = async (values: string) => {
      const {
        selector: _,
        unhealthyPodEvictionPolicy: __,
        ...limits
      } = one(await render(`--set=${values}`), 'PodDisruptionBudget').spec
      return limits
    }
    expect(await budget('podDisruptionBudget.minAvailable=1')).toEqual({ minAvailable: 1 })
    expect(await budget('podDisruptionBudget.minAvailable=0')).toEqual({ minAvailable: 0 })
    expect(await budget('podDisruptionBudget.minAvailable=50%')).toEqual({ minAvailable: '50%' })
    expect(await budget('podDisruptionBudget.maxUnavailable=25%')).toEqual({ maxUnavailable: '25%' })
  })

  test('the usual fields of service, Deployment, routes and monitoring can be set', async () => {
    const objects = await render(`--values=${join(CHART, 'ci/knobs-values.yaml')}`)
    expect(one(objects, 'Deployment').metadata).toMatchObject({
      annotations: { 'reloader.stakater.com/auto': 'true' },
    })
    const { spec } = one(objects, 'Deployment')
    expect(spec.minReadySeconds).toBe(1)
    expect(spec.template.spec).toMatchObject({
      dnsPolicy: 'ClusterFirst',
      dnsConfig: { options: [{ name: 'ndots', value: '1' }] },
      hostAliases: [{ ip: '10.1.2.3', hostnames: ['registry.lab'] }],
    })
    expect(containerOf(objects).lifecycle.preStop.exec.command).toHaveLength(3)
    expect(containerOf(objects).args).toEqual([expect.any(String), '--log-level=debug', '/plugins'])
    const service = objects.find(
      ({ kind, metadata }) => kind === 'Service' && metadata.name === 'r-wasm-serve',
    )
    expect(service?.metadata.labels).toMatchObject({ tier: 'edge' })
    expect(service?.spec).toMatchObject({
      ...{ type: 'NodePort', ipFamilyPolicy: 'PreferDualStack', ipFamilies: ['IPv4'] },
      ...{ sessionAffinity: 'ClientIP', internalTrafficPolicy: 'Cluster' },
      sessionAffinityConfig: { clientIP: { timeoutSeconds: 600 } },
      ports: [{ port: 80, nodePort: 30080 }],
    })
    expect(one(objects, 'HTTPRoute').spec.rules).toMatchObject([
      {
        matches: [{ path: { value: '/shop' }, headers: [{ name: 'version' }] }],
        filters: [{ type: 'RequestHeaderModifier' }],
        timeouts: { request: '10s' },
      },
    ])
    for (const kind of ['HTTPRoute', 'Ingress'])
      expect(one(objects, kind).metadata.labels).toMatchObject({ tier: 'edge' })
    expect(one(objects, 'ServiceMonitor').spec.endpoints).toMatchObject([
      {
        scrapeTimeout: '10s',
        relabelings: [{ targetLabel: 'node' }],
        metricRelabelings: [{ action: 'drop' }],
      },
    ])
    const balancer =
      'service.type=LoadBalancer,service.loadBalancerClass=a,service.loadBalancerSourceRanges[0]=10.0.0.0/8'
    expect(one(await render(`--set=${balancer}`), 'Service').spec).toMatchObject({
      loadBalancerClass: 'a',
      loadBalancerSourceRanges: ['10.0.0.0/8'],
    })
    const token = await render('--set=automountServiceAccountToken=true')
    expect(one(token, 'Deployment').spec.template.spec.automountServiceAccountToken).toBe(true)
    expect(one(token, 'ServiceAccount').automountServiceAccountToken).toBe(true)
    expect(one(token, 'Pod').spec.automountServiceAccountToken).toBe(false)
  })

  test('a ServiceMonitor in another namespace looks for the service in that of the release', async () => {
    const flags = [
      '--namespace=shop',
      '--set=serviceMonitor.enabled=true,serviceMonitor.namespace=monitoring',
    ]
    const monitor = one(await render(...flags), 'ServiceMonitor')
    expect(monitor.metadata).toMatchObject({ namespace: 'monitoring' })
    expect(monitor.spec.namespaceSelector).toEqual({ matchNames: ['shop'] })
  })

  test('triggers of KEDA need no HTTP add-on', async () => {
    const objects = await render(`--values=${join(CHART, 'ci/keda-triggers-values.yaml')}`)
    expect(objects.map(({ kind }) => kind)).not.toContain('InterceptorRoute')
    const { metadata, spec } = one(objects, 'ScaledObject')
    expect([spec.triggers[0].type, spec.triggers.length, spec.cooldownPeriod]).toEqual(['prometheus', 1, 300])
    expect(metadata).toMatchObject({ annotations: { 'autoscaling.keda.sh/paused': 'false' } })
    expect(one(objects, 'Deployment').spec).not.toHaveProperty('replicas')
  })

  test('helpers for credentials are named by registry', async () => {
    const objects = await render(
      valuesFlag({ registryCredentials: { helpers: { 'a.example': 'ecr-login' } } }),
    )
    const map = objects.find(({ metadata }) => metadata.name === 'r-wasm-serve-registry')
    expect(JSON.parse(map?.data['config.json'])).toEqual({ credHelpers: { 'a.example': 'ecr-login' } })
    expect(containerOf(objects).env).toContainEqual({
      name: 'DOCKER_CONFIG',
      value: '/etc/wasm-serve/registry',
    })
    expect(containerOf(objects).volumeMounts).toContainEqual(
      expect.objectContaining({ mountPath: '/etc/wasm-serve/registry' }),
    )
  })

  test('the pod of `helm test` asks for the plug-in, with a key of clients', async () => {
    const url = async (values: string) => {
      const { env } = one(await render(`--set=${values}`), 'Pod').spec.containers[0]
      const texts = Object.fromEntries(
        env.map(({ name, value }: { name: string; value: string }) => [name, value]),
      )
      return [new URL(texts.URL).pathname, texts.REFUSED]
    }
    expect(await url('plugin=a.wasm')).toEqual(['/', '401 403 404'])
    expect(await url('config.plugins.shop.source=a.wasm')).toEqual(['/shop', '401 403 404'])
    expect(await url('pluginVolumes[0].name=a,pluginVolumes[0].emptyDir.sizeLimit=1Mi')).toEqual([
      '/',
      '401 403',
    ])
    const keyed = one(await render('--set=apiKeys.existingSecret=clients'), 'Pod').spec.containers[0].env
    expect(keyed).toContainEqual({
      name: 'KEY',
      valueFrom: { secretKeyRef: { name: 'clients', key: 'key' } },
    })
  })

  test('downloads in the volume of a pod are used again while their server is down', async () => {
    const objects = await render('--set=cache.enabled=true')
    const { initContainers } = one(objects, 'Deployment').spec.template.spec
    expect(containerOf(objects).volumeMounts).toContainEqual({
      name: 'cache',
      mountPath: '/cache',
      subPath: 'cache',
    })
    expect(containerOf(objects).env).toContainEqual({ name: 'XDG_CACHE_HOME', value: '/cache' })

    // As the kubelet makes it: everybody may write to the volume, and the folder in it is mounted.
    const volume = mkdtempSync(join(tmpdir(), 'wasm-serve-volume-'))
    chmodSync(volume, 0o777)
    const [script = ''] = initContainers[0].args
    for (let start = 0; start < 2; start++)
      expect(spawnSync(process.execPath, ['-e', script.replace('/volume', volume)]).status).toBe(0)
    expect(statSync(join(volume, 'cache')).mode & 0o777).toBe(0o700)
    const root = temporaryFolder()
    const cache = join(root, 'cache')
    renameSync(join(volume, 'cache'), cache)

    const bytes = guestBytes('(module (func (export "f")))')
    const server = createServer((_, response) => void response.end(bytes)).listen(0, '127.0.0.1')
    await new Promise((resolve) => server.once('listening', resolve))
    onTestFinished(() => void server.close())
    const address = server.address()
    const port = typeof address === 'object' ? address?.port : 0
    const digest = spawnSync('sha256sum', { input: bytes, encoding: 'utf8' }).stdout.slice(0, 64)
    const check = () =>
      run(['check', `http://127.0.0.1:${port}/a.wasm#sha256=${digest}`], { XDG_CACHE_HOME: cache })
    expect(await check()).toMatchObject({ code: 0, stderr: expect.not.stringContaining('not used') })
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
    expect(await check()).toMatchObject({ code: 0 })
    expect(readdirSync(join(cache, 'wasm-serve'))).toContain('sha256')
  })

  test('the chart has what repositories of charts show', async () => {
    const about = parse((await helm('show', 'chart', CHART)).text)
    expect(about).toMatchObject({
      home: expect.stringContaining('https://'),
      icon: expect.stringContaining('.svg'),
      sources: [expect.stringContaining('https://')],
      maintainers: [{ name: expect.any(String) }],
    })
    const { text } = await helm('show', 'readme', CHART)
    expect(text).toContain('| `networkPolicy.dnsPorts` | `[53]` |')
    const folder = temporaryFolder()
    expect(await helm('package', CHART, '--destination', folder)).toMatchObject({ ok: true })
    const [packed = ''] = readdirSync(folder)
    const { stdout } = spawnSync('tar', ['-tzf', join(folder, packed)], { encoding: 'utf8' })
    expect(stdout).toContain('wasm-serve/LICENSE\n')
    expect(stdout).not.toContain('wasm-serve/ci/')
  })

  const page = blocksOf('docs/operate/clouds.md').filter(({ language }) => language === 'yaml')
  const documents = page.flatMap(({ code }) => parseAllDocuments(code).map((document) => document.toJSON()))

  test.each(
    documents.flatMap(({ kind, spec }: KubernetesObject) => {
      if (kind === 'Application') return [[kind, spec.source.helm.valuesObject]]
      return kind === 'HelmRelease' ? [[kind, spec.values]] : []
    }),
  )('the values of the %s of the page are rendered', async (_, values) => {
    expect(conform(await renderText(valuesFlag(values)))).toEqual([0, ''])
  })

  test('the umbrella chart of the page is rendered', async () => {
    const [chart, values] = ['# Chart.yaml\n', '# values.yaml\n'].map((start) =>
      page.find(({ code }) => code.startsWith(start)),
    )
    const folder = temporaryFolder()
    const local = chart?.code.replace(/repository: oci:.*/, `repository: file://${CHART}`) ?? ''
    writeFileSync(join(folder, 'Chart.yaml'), local)
    writeFileSync(join(folder, 'values.yaml'), values?.code ?? '')
    mkdirSync(join(folder, 'templates'))
    expect(await helm('dependency', 'update', folder)).toMatchObject({ ok: true })
    const { ok, text } = await helm('template', 'r', folder, `--kube-version=${KUBERNETES}`)
    expect([ok, conform(text)]).toEqual([true, [0, '']])
    expect(text).toContain(`image: registry.example/${OWN}:`)
  })

  test('the page shows files of values, and each cloud has one', () => {
    const kinds = page.filter(({ code }) => code.startsWith('# ') && !/^# (Chart|values)\.yaml/.test(code))
    expect(kinds).toHaveLength(5)
  })
})
