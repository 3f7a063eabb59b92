import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { Ajv } from 'ajv'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { parse } from 'yaml'
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
  VARIANTS,
  variantFlag,
} from '../support/helm.ts'
import { buildProgram, KUBERNETES, PROGRAMS } from '../support/registry-programs.ts'
import { describeWith } from '../support/tools.ts'

const schema = JSON.parse(readFileSync(join(CHART, '../../../dist/schema.json'), 'utf8'))
const isConfig = new Ajv({ strict: true, allowUnionTypes: true }).compile(schema)

/** The oldest version that the chart supports, one between, and the newest. */
const VERSIONS = ['v1.27.16', 'v1.31.14', KUBERNETES]

/** Findings of kube-score, each with the reason that it stays. */
const ACCEPTED: Readonly<Record<string, string>> = {
  'container-resources': 'no limit of CPU: throttling stops the event loop; a request is there',
  'container-image-pull-policy': 'images are released under versions that do not move; `image.digest` pins',
  'deployment-has-host-podantiaffinity': 'topologySpreadConstraints do it',
  'pod-networkpolicy': 'the pod of `helm test` lives for a second',
}

describeWith(['go'], () => {
  beforeAll(() => Promise.all(['helm', 'kubeconform', 'kube-score'].map(buildNamed)), 600_000)

  describe.each(['default', ...VARIANTS])('the variant %s', (variant) => {
    const flags = variant === 'default' ? [] : [variantFlag(variant)]

    test('has no finding of helm lint', async () => {
      expect(await helm('lint', '--strict', CHART, ...flags)).toMatchObject({ ok: true })
    })

    test.each(VERSIONS)('fits the schemas of Kubernetes %s', async (version) => {
      const isTooOld = variant === 'volumes' && version === 'v1.27.16'
      // Image volumes are of 1.31, and named in its schema.
      expect(conform(await renderText(...flags), version)).toEqual(
        isTooOld ? [1, expect.stringContaining('image')] : [0, ''],
      )
    })

    test('has no objects of the same kind and name, and each has the labels', async () => {
      const objects = await render(...flags)
      const names = objects.map(({ kind, metadata }) => `${kind}/${metadata.name}`)
      expect(names.length).toBe(new Set(names).size)
      for (const { metadata } of objects.filter(({ metadata }) => !metadata.name.endsWith('-extra')))
        expect(metadata.labels).toMatchObject({ 'app.kubernetes.io/instance': 'r' })
    })

    test('has a configuration that wasm-serve accepts', async () => {
      expect(isConfig(configOf(await render(...flags))), JSON.stringify(isConfig.errors)).toBe(true)
    })

    test('meets the level `restricted`, and reads nothing of the API server', async () => {
      for (const { spec } of podsOf(await render(...flags))) {
        expect(spec.automountServiceAccountToken).toBe(false)
        // OpenShift chooses the user.
        const user = variant === 'openshift' ? undefined : 10001
        expect(spec.securityContext).toMatchObject({ runAsNonRoot: true })
        expect(spec.securityContext.runAsUser).toBe(user)
        for (const { securityContext } of [...spec.containers, ...(spec.initContainers ?? [])])
          expect(securityContext).toEqual({
            allowPrivilegeEscalation: false,
            readOnlyRootFilesystem: true,
            capabilities: { drop: ['ALL'] },
          })
      }
    })
  })

  test('kube-score finds nothing but what is accepted', async () => {
    const input = await renderText()
    const words = ['score', '--output-format=json', `--kubernetes-version=${KUBERNETES.slice(0, 5)}`, '-']
    const { stdout } = spawnSync(join(PROGRAMS, 'kube-score'), words, { input, encoding: 'utf8' })
    const checks = JSON.parse(stdout).flatMap(({ checks }: { checks: Check[] }) => checks)
    const findings = checks.filter(({ skipped, grade }: Check) => !skipped && grade < 10)
    expect(checks.length).toBeGreaterThan(30)
    expect(findings.filter(({ check }: Check) => !(check.id in ACCEPTED))).toEqual([])
  })

  test.each([
    ['config.drainMS=1', 'drainMS'],
    ['config.plugins.hello.source=a.wasm,config.plugins.hello.timeoutMs=0', 'timeoutMs'],
    ['config.routes[0].plugin=a.wasm,config.routes[0].isolation=none', 'isolation'],
    ['config.socket=/run/a.sock', 'socket'],
    ['config.admin=127.0.0.1:9090', 'admin'],
    ['config.jwt.secret=0123456789012345678901234567890123456789', 'secret'],
    ['config.apiKeys[0]=0123456789012345678', 'apiKeys'],
    ['image.tagg=1', 'tagg'],
    ['service.type=Cluster', 'type'],
    ['replicas=two', 'replicas'],
    [`config.drainMs=\${DRAIN}`, 'drainMs'],
    ['plugin=a.wasm,config.plugins.hello.source=a.wasm', 'plugin'],
    [`config.host=\${HOST}`, 'config.host'],
    ['config.host=127.0.0.1', 'config.host'],
    ['probes.port=8080', 'probes.port'],
    ['admin.enabled=true,admin.port=9091,admin.existingSecret=a', 'admin.port'],
    ['service.nodePort=30080', 'service.nodePort'],
    ['service.loadBalancerClass=a', 'service.loadBalancerClass'],
    ['service.ipFamilies[0]=IPv6', 'config.host'],
    ['service.ipFamilyPolicy=PreferDualStack', 'config.host'],
    ['registryCredentials.existingSecret=a,registryCredentials.helpers.a=b', 'registryCredentials'],
    ['config.requireSignatures=true,plugin=oci://a.example/b', 'config.trust'],
    ['config.requireSignatures=true,config.plugins.a.source=oci://a.example/b', 'config.trust'],
    ['admin.enabled=true', 'admin.existingSecret'],
    ['config.processes=auto', 'config.processes'],
    ['resources.limits.memory=lots', 'resources.limits.memory'],
    ['resources.limits.memory=512Mi,config.processes=4', 'resources.limits.memory'],
    ['httpRoute.enabled=true', 'httpRoute.parentRefs'],
    ['keda.enabled=true', 'keda.hosts'],
    ['autoscaling.enabled=true,autoscaling.cpuPercent=0', 'cpuPercent'],
    ['keda.enabled=true,autoscaling.enabled=true', 'autoscaling'],
    ['fleet.url=redis://r,config.watch=true', 'config.watch'],
    ['fleet.existingSecret=r,config.registryPollMs=9000', 'config.registryPollMs'],
    ['podLabels.team=1', 'podLabels'],
    ['ingress.annotations.ssl=true', 'ingress/annotations'],
    ['fullnameOverride=1shop', 'fullnameOverride'],
    ['pluginVolumes[0].name=a.b,pluginVolumes[0].emptyDir.sizeLimit=1Mi', 'pluginVolumes'],
    ['pluginVolumes[0].name=a', 'pluginVolumes'],
  ])('%s is refused, and the message names %s', async (values, key) => {
    const { ok, text } = await helm('template', 'r', CHART, `--kube-version=${KUBERNETES}`, `--set=${values}`)
    expect([ok, text]).toEqual([false, expect.stringContaining(key)])
  })

  test.each(['1.shop', '1', 'true'])('names and texts like "%s" stay texts', async (text) => {
    const names = [
      ...[
        'nameOverride',
        'priorityClassName',
        'runtimeClassName',
        'ingress.className',
        'serviceAccount.name',
      ],
      ...['fleet', 'admin', 'tls', 'apiKeys', 'registryCredentials', 'trustKeys'].map(
        (part) => `${part}.existingSecret`,
      ),
      ...['fleet.key', 'admin.key', 'apiKeys.keys[0]', 'trustKeys.existingConfigMap', 'commonLabels.a'],
    ]
    const set = names.map((name) => `${name}=${text}`).join()
    const rendered = await renderText(
      `--namespace=${text.replace('.', '-')}`,
      `--set-string=${set},fullnameOverride=r,pluginFiles.${text.replace('.', '\\.')}=AA==`,
      '--set=ingress.enabled=true,admin.enabled=true',
    )
    expect(conform(rendered)).toEqual([0, ''])
  })

  test('a name of a release with dots makes names that Services may have', async () => {
    const { text } = await helm('template', 'my.shop', CHART, `--kube-version=${KUBERNETES}`)
    expect(text).toContain('name: my-shop-wasm-serve\n')
    expect(text).toContain('app.kubernetes.io/instance: "my.shop"\n')
  })

  test('labels, annotations and variables of the values replace those of the same name', async () => {
    const values = [
      ...['commonLabels.team=a', 'podLabels.team=b', 'serviceMonitor.labels.team=c'],
      'podAnnotations.kubectl\\.kubernetes\\.io/default-container=sidecar',
      ...['env[0].name=NODE_OPTIONS', 'env[0].value=--use-openssl-ca', 'serviceMonitor.enabled=true'],
      ...['podLabels.app\\.kubernetes\\.io/name=other'],
    ]
    const text = await renderText(`--set=${values}`)
    expect(conform(text)).toEqual([0, ''])
    const objects = await render(`--set=${values}`)
    const { metadata } = one(objects, 'Deployment').spec.template
    expect(metadata.labels).toMatchObject({ team: 'b', 'app.kubernetes.io/name': 'wasm-serve' })
    expect(metadata.annotations).toMatchObject({ 'kubectl.kubernetes.io/default-container': 'sidecar' })
    expect(one(objects, 'ServiceMonitor').metadata.labels).toMatchObject({ team: 'c' })
    const options = containerOf(objects).env.filter(({ name }: Named) => name === 'NODE_OPTIONS')
    expect(options).toEqual([{ name: 'NODE_OPTIONS', value: '--use-openssl-ca' }])
  })

  test('a default that another value excludes is left out', async () => {
    const spec = async (values: string) => one(await render(`--set=${values}`), 'Deployment').spec
    expect((await spec('strategy.type=Recreate')).strategy).toEqual({ type: 'Recreate' })
    const { containers } = (await spec('probes.liveness=null')).template.spec
    expect(containers[0]).not.toHaveProperty('livenessProbe')
    expect(containers[0]).toHaveProperty('readinessProbe')
    const first = 'topologySpreadConstraints[0]'
    const needed = `${first}.maxSkew=1,${first}.topologyKey=zone,${first}.whenUnsatisfiable=DoNotSchedule`
    const spread = `${needed},${first}.labelSelector.matchLabels.team=a`
    const [constraint] = (await spec(spread)).template.spec.topologySpreadConstraints
    expect(constraint.labelSelector).toEqual({ matchLabels: { team: 'a' } })
  })

  test.each([
    ['plugin=a.wasm', '/', '/'],
    ['plugin=a.wasm,ingress.path=/shop', '/', '/shop'],
    ['config.plugins.shop.source=a.wasm', '/shop', '/shop'],
    [
      'config.routes[0].url=/shop/buy,config.routes[0].plugin=a.wasm,ingress.path=/shop',
      '/shop/buy',
      '/shop/buy',
    ],
    ['pluginFiles.a\\.wasm=AA==', '/a', '/a'],
    ['pluginVolumes[0].name=a,pluginVolumes[0].emptyDir.sizeLimit=1Mi', '/PLUGIN', '/PLUGIN'],
    ['replicas=1', '/hello', '/hello'],
  ])('with %s, the notes name the path %s, and %s behind an Ingress', async (values, path, behind) => {
    const data = {
      path: '{{ include "wasm-serve.path" . }}',
      behind: '{{ include "wasm-serve.pathBehind" (list . .Values.ingress.path) }}',
    }
    const notes = { apiVersion: 'v1', kind: 'Notes', metadata: { name: 'notes' }, data }
    const extra = `--set-json=extraObjects=${JSON.stringify([notes])}`
    expect(one(await render(`--set=${values}`, extra), 'Notes').data).toEqual({ path, behind })
  })

  test('keys of clients are those of the configuration and those of the Secret', async () => {
    const values = `config.apiKeys[0]=\${KEY},apiKeys.existingSecret=clients`
    expect(configOf(await render(`--set=${values}`)).apiKeys).toEqual([
      `\${KEY}`,
      `\${WASM_SERVE_CHART_API_KEY_0}`,
    ])
  })

  test('the time until the kubelet kills is longer than the drain and the grace period', async () => {
    const seconds = async (values: string) =>
      one(await render(`--set=${values}`), 'Deployment').spec.template.spec.terminationGracePeriodSeconds
    expect(await seconds('replicas=2')).toBe(20)
    expect(await seconds('config.drainMs=300,config.graceMs=30001')).toBe(36)
    expect(await seconds('terminationGracePeriodSeconds=60')).toBe(60)
  })

  test.each([
    ['resources.limits.memory=512Mi', 256, undefined],
    ['resources.limits.memory=1.5Gi', 768, undefined],
    ['resources.limits.memory=1G', 476, undefined],
    ['resources.limits.memory=1Gi,config.processes=3', 128, 241_591_910],
    ['resources.limits.memory=1Gi,config.processes=3,config.processMemoryMax=200MiB', 128, '200MiB'],
    ['resources.limits.memory=512Mi,config.processes=4,config.processMemoryMax=1GiB', 51, '1GiB'],
    ['resources.limits.memory=1Gi,heapMiB=300', 300, undefined],
    ['resources.limits=null', undefined, undefined],
    ['resources=null', undefined, undefined],
  ])('%s: the heap has %s MiB, and processMemoryMax is %s', async (values, heap, memoryMax) => {
    const objects = await render(`--set=${values}`)
    const options = containerOf(objects).env?.find(({ name }: Named) => name === 'NODE_OPTIONS')
    expect(options?.value).toBe(heap === undefined ? undefined : `--max-old-space-size=${heap}`)
    expect(configOf(objects).processMemoryMax).toBe(memoryMax)
  })

  test.each([
    ['default', ['/plugins']],
    ['oci', ['oci://ghcr.io/acme/hello:1.2']],
    ['volumes', ['/plugins/shop', '/plugins/shared', '/plugins/small']],
    ['files', ['/plugins/files']],
    ['ingress', []],
  ])('the variant %s serves %s', async (variant, plugins) => {
    const objects = await render(...(variant === 'default' ? [] : [variantFlag(variant)]))
    expect(containerOf(objects).args).toEqual([
      '--config-file=/etc/wasm-serve/config/wasm-serve.json',
      ...plugins,
    ])
  })

  test('variables of the image do not win over the values', async () => {
    const variables = async (...flags: string[]) =>
      Object.fromEntries(
        containerOf(await render(...flags)).env.map(({ name, value }: Named) => [name, value]),
      )
    expect(await variables('--set=config.port=8081,config.host=::')).toMatchObject({
      WASM_SERVE_HOST: '::',
      WASM_SERVE_PORT: '8081',
      WASM_SERVE_PROBES: '[::]:9091',
      WASM_SERVE_ADMIN: '',
    })
    expect(await variables(variantFlag('fleet'))).toMatchObject({ WASM_SERVE_ADMIN: '127.0.0.1:9090' })
  })

  test.each([
    ['', 0],
    ['test.method=POST,test.body=Bob,test.status=200,test.answer=POST Bob', 0],
    ['test.method=POST,test.body=Bob,test.answer=GET Bob', 1],
    ['test.path=/missing', 1],
    ['test.path=/refused', 1],
    ['test.path=/method', 0],
    ['test.path=/missing,test.status=404', 0],
    ['test.path=/missing,test.status=200', 1],
    ['test.path=/broken', 1],
  ])('the pod of `helm test` with the values "%s" ends with %i', async (values, code) => {
    const server = createServer(async ({ method, url }, response) => {
      response.statusCode =
        { '/missing': 404, '/refused': 401, '/method': 405, '/broken': 500 }[url ?? ''] ?? 200
      response.end(`${method} Bob`)
    }).listen(0, '127.0.0.1')
    onTestFinished(() => void server.close())
    await once(server, 'listening')
    const address = server.address()
    const port = typeof address === 'object' ? address?.port : 0
    const [container] = one(await render(`--set=${values}`), 'Pod').spec.containers
    const [, ...words] = container.command
    const env = Object.fromEntries(container.env.map(({ name, value }: Named) => [name, value]))
    const { pathname } = new URL(env.URL)
    const program = spawn(process.execPath, [...words, ...container.args], {
      env: { ...env, URL: `http://127.0.0.1:${port}${pathname}` },
      stdio: 'ignore',
    })
    expect(await once(program, 'exit')).toEqual([code, null])
  })

  test('large numbers stay numbers, and quotes stay quotes', async () => {
    const set = 'config.uploadLimit=67108864,config.defaults.headers.x-a=<"&\\,>'
    expect(configOf(await render(`--set=${set}`))).toMatchObject({
      uploadLimit: 67_108_864,
      defaults: { headers: { 'x-a': '<"&,>' } },
    })
    // In a file, or as JSON, Helm makes a number with an exponent of it.
    const bytes = containerOf(await render('--set-json=resources.limits.memory=1073741824'))
    expect(bytes.env).toContainEqual({ name: 'NODE_OPTIONS', value: '--max-old-space-size=512' })
  })

  test('secrets are variables from Secrets, and in no ConfigMap', async () => {
    const objects = await render(variantFlag('ingress'))
    expect(configOf(objects)).toMatchObject({
      apiKeys: [`\${WASM_SERVE_CHART_API_KEY_0}`, `\${WASM_SERVE_CHART_API_KEY_1}`],
      jwt: { secret: `\${JWT_SECRET}` },
      tls: { cert: '/etc/wasm-serve/tls/tls.crt', key: '/etc/wasm-serve/tls/tls.key' },
    })
    const [, mobile] = containerOf(objects).env.filter(({ name }: Named) => name.includes('API_KEY'))
    expect(mobile.valueFrom.secretKeyRef).toEqual({ name: 'clients', key: 'mobile' })
    const fleet = containerOf(await render(variantFlag('fleet'))).env
    expect(fleet).toContainEqual({
      name: 'WASM_SERVE_FLEET',
      valueFrom: { secretKeyRef: { name: 'redis', key: 'url' } },
    })
  })

  test('pods are replaced when the configuration or a plug-in in the values changes, and not for a label of the service', async () => {
    const checksum = async (values: string) =>
      one(await render(`--set=${values}`), 'Deployment').spec.template.metadata.annotations['checksum/config']
    const sums = ['replicas=3', 'config.logLevel=debug', 'pluginFiles.a\\.wasm=AGFzbQEAAAA=']
    const [same, config, plugin] = await Promise.all(sums.map(checksum))
    expect(new Set([await checksum('service.annotations.a=b'), same, config, plugin]).size).toBe(3)
    expect(await checksum('rollOnConfigChange=false')).toBe(undefined)
  })

  test('a budget is there for several pods only, and replicas are not for those that are scaled', async () => {
    const kinds = async (...flags: string[]) => (await render(...flags)).map(({ kind }) => kind)
    expect(await kinds()).toContain('PodDisruptionBudget')
    expect(await kinds('--set=replicas=1')).not.toContain('PodDisruptionBudget')
    expect(await kinds('--set=autoscaling.enabled=true,autoscaling.minReplicas=1')).not.toContain(
      'PodDisruptionBudget',
    )
    const scaled = await render(variantFlag('autoscaling'))
    expect(one(scaled, 'Deployment').spec.replicas).toBe(undefined)
    expect(one(scaled, 'HorizontalPodAutoscaler').spec.metrics).toHaveLength(3)
  })

  test('only the addresses that the configuration needs may be reached', async () => {
    const ports = async (...flags: string[]) =>
      one(await render(...flags), 'NetworkPolicy').spec.egress.map(
        ({ ports }: { ports: { port: number }[] }) => ports.map(({ port }) => port),
      )
    expect(await ports()).toEqual([[53, 53]])
    expect(await ports('--set=plugin=oci://ghcr.io/acme/hello:1')).toEqual([[53, 53], [443]])
    expect(await ports('--set=config.defaults.allowedHosts={api.example}')).toEqual([[53, 53], [443]])
    expect(await ports('--set=config.store=redis://a')).toEqual([[53, 53], [6379]])
    expect(await ports(`--set=config.store=\${STORE}`)).toEqual([[53, 53], [6379]])
    expect(await ports(variantFlag('fleet'))).toEqual([[53, 53], [6379]])
    expect(await ports('--set=config.store=lmdb:/data')).toEqual([[53, 53]])
    expect(await ports(`--set=config.plugins.a.source=\${PLUGIN}`)).toEqual([[53, 53], [443]])
  })

  test('an empty list of ports or addresses opens nothing', async () => {
    const needs = 'config.store=redis://a,plugin=oci://ghcr.io/acme/hello:1'
    const closed = ['publicPorts', 'storePorts', 'dns', 'metricsFrom'].map((list) => ({ [list]: [] }))
    const values = `--set-json=networkPolicy=${JSON.stringify(Object.assign({}, ...closed))}`
    const { spec } = one(await render(`--set=${needs}`, values), 'NetworkPolicy')
    expect(spec.egress ?? []).toEqual([])
    expect(spec.ingress).toEqual([{ ports: [{ port: 'http', protocol: 'TCP' }] }])
  })

  test('the pod of `helm test` is a client that the policy allows', async () => {
    const objects = await render(variantFlag('monitoring'))
    const [{ from }] = one(objects, 'NetworkPolicy').spec.ingress
    expect(from).toContainEqual({ podSelector: { matchLabels: one(objects, 'Pod').metadata.labels } })
  })

  test('Prometheus gets the alert rules, and the metrics under the job that they name', async () => {
    const objects = await render(variantFlag('monitoring'))
    const rules = parse(readFileSync(join(CHART, '../../prometheus/alerts.yaml'), 'utf8'))
    expect(one(objects, 'PrometheusRule').spec).toEqual(rules)
    expect(JSON.stringify(rules)).toContain('job=\\"wasm-serve\\"')
    const service = objects.find(({ metadata }) => metadata.name === 'r-wasm-serve-metrics')
    const { spec } = one(objects, 'ServiceMonitor')
    expect(service?.metadata.labels).toMatchObject({
      ...spec.selector.matchLabels,
      [spec.jobLabel]: 'wasm-serve',
    })
    expect(spec.endpoints).toEqual([{ port: service?.spec.ports[0].name, path: '/metrics', interval: '15s' }])
  })

  test('the route of the Gateway API splits by weight, and KEDA scales by the requests of its route', async () => {
    const { spec } = one(await render(variantFlag('gateway')), 'HTTPRoute')
    expect(spec.rules[0].backendRefs).toEqual([
      { name: 'r-wasm-serve', port: 80, weight: 10 },
      { name: 'stable-wasm-serve', port: 80, weight: 90 },
    ])
    const scaled = await render(variantFlag('keda'))
    const [trigger] = one(scaled, 'ScaledObject').spec.triggers
    expect(trigger.metadata.interceptorRoute).toBe(one(scaled, 'InterceptorRoute').metadata.name)
  })
})

interface Check {
  readonly check: { readonly id: string }
  readonly grade: number
  readonly skipped: boolean
}

interface Named {
  readonly name: string
  readonly value?: string
}

function buildNamed(name: string): Promise<void> {
  if (name === 'helm' || name === 'kubeconform' || name === 'kube-score') return buildProgram(name)
  throw new Error(name)
}

function podsOf(objects: readonly KubernetesObject[]): KubernetesObject[] {
  return objects.flatMap((object) => {
    if (object.kind === 'Pod') return [object]
    return object.kind === 'Deployment' ? [object.spec.template] : []
  })
}
