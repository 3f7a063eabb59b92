import { once } from 'node:events'
import { createServer } from 'node:https'
import { selfSigned } from './certificate.ts'
import type { ControlPlane } from './control-plane.ts'

/** The metrics of all pods, which a test sets. */
interface PodMetrics {
  /** CPU of the container, in thousandths of a core. */
  cpu: number
  /** Custom metrics by name, as quantities. */
  custom: Readonly<Record<string, string>>
}

/** A server behind the API server, which has the metrics that a HorizontalPodAutoscaler asks for. */
export interface MetricsApi {
  readonly metrics: PodMetrics
  stop(): void
}

const RESOURCE = 'metrics.k8s.io/v1beta1'
const CUSTOM = 'custom.metrics.k8s.io/v1beta2'

/** Serves `metrics.k8s.io` and `custom.metrics.k8s.io`: each pod that the asked selector finds has the same metrics. */
export async function openMetricsApi(plane: ControlPlane): Promise<MetricsApi> {
  const metrics: PodMetrics = { cpu: 0, custom: {} }
  const server = createServer(selfSigned('localhost'), async (request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '', 'https://localhost')
    const found = await answerOf(plane, metrics, decodeURIComponent(pathname), searchParams)
    response.writeHead(found ? 200 : 404, { 'content-type': 'application/json' })
    response.end(JSON.stringify(found ?? { kind: 'Status', apiVersion: 'v1', status: 'Failure', code: 404 }))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const port = typeof address === 'object' ? address?.port : undefined
  // The API server asks the name of such a service, which is this machine, instead of the address of a cluster.
  const service = { type: 'ExternalName', externalName: 'localhost', ports: [{ port }] }
  const metadata = { name: 'metrics', namespace: 'kube-system' }
  await plane.ask('POST', '/api/v1/namespaces/kube-system/services', { metadata, spec: service })
  for (const name of [RESOURCE, CUSTOM]) {
    const [group, version] = name.split('/')
    const spec = {
      ...{ group, version, groupPriorityMinimum: 100, versionPriority: 100, insecureSkipTLSVerify: true },
      service: { ...metadata, port },
    }
    const path = '/apis/apiregistration.k8s.io/v1/apiservices'
    await plane.ask('POST', path, { metadata: { name: `${version}.${group}` }, spec })
  }
  return {
    metrics,
    stop() {
      server.closeAllConnections()
      server.close()
    },
  }
}

async function answerOf(plane: ControlPlane, metrics: PodMetrics, path: string, query: URLSearchParams) {
  if (path === `/apis/${RESOURCE}`) return resources(RESOURCE, 'pods', 'PodMetrics')
  if (path === `/apis/${CUSTOM}`) return resources(CUSTOM, 'pods/*', 'MetricValueList')
  const [, namespace, metric] = /\/namespaces\/([^/]+)\/pods(?:\/\*\/([^/]+))?$/.exec(path) ?? []
  if (namespace === undefined) return undefined
  const selector = encodeURIComponent(query.get('labelSelector') ?? '')
  const { body } = await plane.ask('GET', `/api/v1/namespaces/${namespace}/pods?labelSelector=${selector}`)
  const names: string[] = body.items.map(({ metadata }: { metadata: { name: string } }) => metadata.name)
  const timestamp = new Date().toISOString()
  if (metric !== undefined) {
    const value = metrics.custom[metric]
    if (value === undefined) return undefined
    const describedObject = { kind: 'Pod', namespace, apiVersion: '/v1' }
    const items = names.map((name) => ({
      ...{ describedObject: { ...describedObject, name }, metric: { name: metric } },
      ...{ timestamp, value },
    }))
    return { kind: 'MetricValueList', apiVersion: CUSTOM, metadata: {}, items }
  }
  const containers = [{ name: 'wasm-serve', usage: { cpu: `${metrics.cpu}m`, memory: '64Mi' } }]
  const items = names.map((name) => ({ metadata: { name, namespace }, timestamp, window: '10s', containers }))
  return { kind: 'PodMetricsList', apiVersion: RESOURCE, metadata: {}, items }
}

function resources(groupVersion: string, name: string, kind: string): object {
  const resource = { name, singularName: '', namespaced: true, kind, verbs: ['get', 'list'] }
  return { kind: 'APIResourceList', apiVersion: 'v1', groupVersion, resources: [resource] }
}
