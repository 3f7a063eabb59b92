/*
 * Shapes of the chart's values that their defaults do not tell: lists, objects of Kubernetes, and texts with a form. Keys are those
 * of the APIs, so that a mistake is found before anything is installed. Patterns are RE2, as Helm reads them.
 */

/** A JSON schema. */
type Shape = Readonly<Record<string, unknown>>
type Shapes = Readonly<Record<string, Shape>>

const TEXT = { type: 'string' }
const NAME = { type: 'string', minLength: 1 }
const ANY_OBJECT = { type: 'object' }
const BOOLEAN = { type: 'boolean' }
const INTEGER = { type: 'integer' }
const PORT = { type: 'integer', minimum: 1, maximum: 65_535 }
const NUMBER_OR_TEXT = { type: ['integer', 'string'] }
/** A range of addresses, such as 10.0.0.0/8. */
const CIDR = { type: 'string', pattern: '^[0-9a-fA-F.:]+/[0-9]+$' }
const PATH = { type: 'string', pattern: '^/' }
const DURATION = { type: 'string', pattern: '^$|^([0-9]+(ms|s|m|h))+$' }
/** Kubernetes takes no other values for labels and annotations, and files have no others. */
const TEXTS_BY_NAME = mapOf(TEXT)

function listOf(items: Shape): Shape {
  return { type: 'array', items }
}

function mapOf(values: Shape): Shape {
  return { type: 'object', additionalProperties: orNull(values) }
}

/** An object with these keys and no others. What is optional may be null: Helm 4 passes on a null of an older release. */
function only(required: Shapes, optional: Shapes = {}): Shape {
  return {
    type: 'object',
    additionalProperties: false,
    properties: { ...required, ...mapShapes(optional, orNull) },
    ...(Object.keys(required).length > 0 && { required: Object.keys(required) }),
  }
}

/** An object of which these keys are checked. */
function withAtLeast(required: Shapes, optional: Shapes = {}): Shape {
  const properties = { ...required, ...mapShapes(optional, orNull) }
  return { type: 'object', required: Object.keys(required), properties }
}

function oneOf(...names: readonly string[]): Shape {
  return { type: 'string', enum: names }
}

/** Each shape, changed. */
export function mapShapes(
  shapes: Readonly<Record<string, object>>,
  change: (shape: object) => Shape,
): Shapes {
  return Object.fromEntries(Object.entries(shapes).map(([key, shape]) => [key, change(shape)]))
}

/** The shape of a value that may be missing. */
export function orNull(shape: object): Shape {
  const { type, enum: names, anyOf }: Shape = { ...shape }
  return {
    ...shape,
    ...(type !== undefined && { type: [...[type].flat(), 'null'] }),
    ...(Array.isArray(names) && { enum: [...names, null] }),
    ...(Array.isArray(anyOf) && { anyOf: [...anyOf, { type: 'null' }] }),
  }
}

const PULL_SECRETS = listOf({ anyOf: [NAME, only({ name: NAME })] })

const SELECTOR = only({}, { matchLabels: TEXTS_BY_NAME, matchExpressions: listOf(ANY_OBJECT) })

const PEERS = listOf(
  only(
    {},
    {
      podSelector: SELECTOR,
      namespaceSelector: SELECTOR,
      ipBlock: only({ cidr: CIDR }, { except: listOf(CIDR) }),
    },
  ),
)

const POLICY_PORT = only({}, { port: NUMBER_OR_TEXT, endPort: PORT, protocol: oneOf('TCP', 'UDP', 'SCTP') })

const QUANTITIES = mapOf({ type: ['string', 'number'] })

const CONTAINERS = listOf(withAtLeast({ name: NAME }, { image: NAME }))

/** A probe without its target. */
const PROBE = only(
  {},
  {
    ...{ initialDelaySeconds: INTEGER, periodSeconds: INTEGER, timeoutSeconds: INTEGER },
    ...{ failureThreshold: INTEGER, successThreshold: INTEGER, terminationGracePeriodSeconds: INTEGER },
  },
)

const RELABELINGS = listOf(
  only(
    {},
    {
      ...{ sourceLabels: listOf(NAME), separator: TEXT, targetLabel: TEXT, regex: TEXT },
      ...{ modulus: INTEGER, replacement: TEXT, action: TEXT },
    },
  ),
)

const FILTERS = listOf(withAtLeast({ type: NAME }))

const SCALING_RULES = only(
  {},
  {
    ...{ stabilizationWindowSeconds: INTEGER, selectPolicy: oneOf('Max', 'Min', 'Disabled') },
    ...{ policies: listOf(ANY_OBJECT), tolerance: NUMBER_OR_TEXT },
  },
)

/** By the path of the value. */
export const SHAPES: Shapes = {
  'global.imagePullSecrets': PULL_SECRETS,
  // An image's name, such as ghcr.io/acme/hello:1, is no reference of a plug-in.
  plugin: { type: 'string', pattern: '^[^:]*$|^(oci|https?|file)://|\\$\\{' },
  pluginVolumes: listOf(withAtLeast({ name: NAME })),
  pluginFiles: mapOf({ type: 'string', pattern: '^[A-Za-z0-9+/=\\s]*$' }),
  'image.repository': { type: 'string', pattern: '^[^\\s@]+$' },
  'image.tag': { type: 'string', pattern: '^$|^\\w[\\w.-]*(@sha256:[0-9a-f]{64})?$' },
  'image.digest': { type: 'string', pattern: '^$|^sha256:[0-9a-f]{64}$' },
  imagePullSecrets: PULL_SECRETS,
  commonLabels: TEXTS_BY_NAME,
  deploymentAnnotations: TEXTS_BY_NAME,
  strategy: only(
    {},
    {
      type: oneOf('RollingUpdate', 'Recreate'),
      rollingUpdate: only({}, { maxUnavailable: NUMBER_OR_TEXT, maxSurge: NUMBER_OR_TEXT }),
    },
  ),
  'probes.port': PORT,
  'probes.startup': PROBE,
  'probes.readiness': PROBE,
  'probes.liveness': PROBE,
  resources: only({}, { requests: QUANTITIES, limits: QUANTITIES, claims: listOf(ANY_OBJECT) }),
  podSecurityContext: ANY_OBJECT,
  securityContext: ANY_OBJECT,
  'serviceAccount.annotations': TEXTS_BY_NAME,
  'serviceAccount.labels': TEXTS_BY_NAME,
  'service.port': PORT,
  'service.nodePort': { type: 'integer', minimum: 0, maximum: 65_535 },
  'service.annotations': TEXTS_BY_NAME,
  'service.labels': TEXTS_BY_NAME,
  'service.ipFamilies': listOf(oneOf('IPv4', 'IPv6')),
  'service.sessionAffinityConfig': only({}, { clientIP: only({}, { timeoutSeconds: INTEGER }) }),
  'service.loadBalancerSourceRanges': listOf(CIDR),
  'ingress.annotations': TEXTS_BY_NAME,
  'ingress.labels': TEXTS_BY_NAME,
  'ingress.hosts': listOf({
    anyOf: [
      NAME,
      only(
        { host: TEXT },
        {
          paths: listOf(
            only({ path: PATH }, { pathType: oneOf('Prefix', 'Exact', 'ImplementationSpecific') }),
          ),
        },
      ),
    ],
  }),
  'ingress.path': PATH,
  'ingress.tls': listOf(only({}, { hosts: listOf(NAME), secretName: TEXT })),
  'httpRoute.annotations': TEXTS_BY_NAME,
  'httpRoute.labels': TEXTS_BY_NAME,
  'httpRoute.parentRefs': listOf(
    only({ name: NAME }, { group: TEXT, kind: TEXT, namespace: TEXT, sectionName: TEXT, port: PORT }),
  ),
  'httpRoute.hostnames': listOf(NAME),
  'httpRoute.path': PATH,
  'httpRoute.matches': listOf(
    only(
      {},
      { path: ANY_OBJECT, headers: listOf(ANY_OBJECT), queryParams: listOf(ANY_OBJECT), method: TEXT },
    ),
  ),
  'httpRoute.filters': FILTERS,
  'httpRoute.timeouts': only({}, { request: TEXT, backendRequest: TEXT }),
  'httpRoute.backendRefs': listOf(
    only(
      { name: NAME },
      { group: TEXT, kind: TEXT, namespace: TEXT, port: PORT, weight: INTEGER, filters: FILTERS },
    ),
  ),
  'autoscaling.metrics': listOf(withAtLeast({ type: NAME })),
  'autoscaling.behavior': only({}, { scaleUp: SCALING_RULES, scaleDown: SCALING_RULES }),
  'keda.hosts': listOf(NAME),
  'keda.annotations': TEXTS_BY_NAME,
  'keda.triggers': listOf(withAtLeast({ type: NAME }, { metadata: ANY_OBJECT })),
  'keda.spec': ANY_OBJECT,
  'networkPolicy.from': PEERS,
  'networkPolicy.metricsFrom': PEERS,
  'networkPolicy.dns': PEERS,
  'networkPolicy.dnsPorts': listOf(PORT),
  'networkPolicy.publicPorts': listOf(PORT),
  'networkPolicy.except': listOf(CIDR),
  'networkPolicy.storePorts': listOf(PORT),
  'networkPolicy.collectorPorts': listOf(PORT),
  'networkPolicy.egress': listOf(only({}, { ports: listOf(POLICY_PORT), to: PEERS })),
  'admin.port': PORT,
  'registryCredentials.helpers': mapOf(NAME),
  'apiKeys.keys': listOf(NAME),
  'trustKeys.files': TEXTS_BY_NAME,
  'serviceMonitor.interval': DURATION,
  'serviceMonitor.scrapeTimeout': DURATION,
  'serviceMonitor.labels': TEXTS_BY_NAME,
  'serviceMonitor.relabelings': RELABELINGS,
  'serviceMonitor.metricRelabelings': RELABELINGS,
  'prometheusRule.labels': TEXTS_BY_NAME,
  'grafanaDashboard.labels': TEXTS_BY_NAME,
  'grafanaDashboard.annotations': TEXTS_BY_NAME,
  topologySpreadConstraints: listOf(
    only(
      {
        maxSkew: INTEGER,
        topologyKey: NAME,
        whenUnsatisfiable: oneOf('ScheduleAnyway', 'DoNotSchedule'),
      },
      {
        ...{ labelSelector: SELECTOR, matchLabelKeys: listOf(NAME), minDomains: INTEGER },
        ...{ nodeAffinityPolicy: TEXT, nodeTaintsPolicy: TEXT },
      },
    ),
  ),
  nodeSelector: TEXTS_BY_NAME,
  tolerations: listOf(
    only(
      {},
      {
        ...{ key: TEXT, operator: oneOf('Exists', 'Equal', 'Lt', 'Gt'), value: TEXT },
        ...{ effect: oneOf('', 'NoSchedule', 'PreferNoSchedule', 'NoExecute'), tolerationSeconds: INTEGER },
      },
    ),
  ),
  affinity: only({}, { nodeAffinity: ANY_OBJECT, podAffinity: ANY_OBJECT, podAntiAffinity: ANY_OBJECT }),
  podAnnotations: TEXTS_BY_NAME,
  podLabels: TEXTS_BY_NAME,
  hostAliases: listOf(only({ ip: NAME, hostnames: listOf(NAME) })),
  dnsConfig: only({}, { nameservers: listOf(NAME), searches: listOf(NAME), options: listOf(ANY_OBJECT) }),
  lifecycle: only({}, { preStop: ANY_OBJECT, postStart: ANY_OBJECT, stopSignal: TEXT }),
  extraArgs: listOf(NAME),
  env: listOf(only({ name: NAME }, { value: TEXT, valueFrom: ANY_OBJECT })),
  envFrom: listOf(only({}, { prefix: TEXT, configMapRef: ANY_OBJECT, secretRef: ANY_OBJECT })),
  extraVolumes: listOf(withAtLeast({ name: NAME })),
  extraVolumeMounts: listOf(
    only(
      { name: NAME, mountPath: NAME },
      {
        ...{ subPath: TEXT, subPathExpr: TEXT, readOnly: BOOLEAN },
        ...{ recursiveReadOnly: TEXT, mountPropagation: TEXT },
      },
    ),
  ),
  initContainers: CONTAINERS,
  sidecars: CONTAINERS,
  extraObjects: listOf({ anyOf: [NAME, withAtLeast({ apiVersion: NAME, kind: NAME })] }),
  'test.path': { type: 'string', pattern: '^$|^/' },
  'test.status': { type: 'integer', minimum: 0, maximum: 599 },
}
