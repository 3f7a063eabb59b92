import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { onTestFinished } from 'vitest'

/** A span, as far as tests look at it. */
export interface SentSpan {
  readonly name: string
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId: string | undefined
  readonly kind: number
  readonly isError: boolean
  readonly ms: number
  /** The names of its events, in order. */
  readonly events: readonly string[]
  readonly service: unknown
  readonly attributes: Readonly<Record<string, unknown>>
}

/** Takes spans by OTLP/HTTP in JSON (`v1/traces`), and any other request, which it answers with its `traceparent`. */
export interface Collector {
  readonly url: string
  readonly spans: SentSpan[]
  /** Headers of the other requests. */
  readonly asked: IncomingHttpHeaders[]
}

export async function openCollector(): Promise<Collector> {
  const spans: SentSpan[] = []
  const asked: IncomingHttpHeaders[] = []
  const server = createServer(async (request, response) => {
    const body = await buffer(request)
    if (request.url === '/v1/traces') spans.push(...readSpans(JSON.parse(String(body))))
    else asked.push(request.headers)
    response.end('{}')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, spans, asked }
}

interface Attribute {
  readonly key: string
  readonly value: Readonly<Record<string, unknown>>
}

/** ExportTraceServiceRequest in JSON. (OTLP 1) */
interface Export {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: readonly Attribute[] }
    readonly scopeSpans: readonly {
      readonly spans: readonly {
        readonly name: string
        readonly traceId: string
        readonly spanId: string
        readonly parentSpanId?: string
        readonly kind: number
        readonly startTimeUnixNano: string
        readonly endTimeUnixNano: string
        readonly events: readonly { readonly name: string }[]
        readonly status: { readonly code?: number }
        readonly attributes: readonly Attribute[]
      }[]
    }[]
  }[]
}

const ERROR = 2

function readSpans({ resourceSpans }: Export): SentSpan[] {
  return resourceSpans.flatMap(({ resource, scopeSpans }) =>
    scopeSpans.flatMap(({ spans }) =>
      spans.map(({ name, traceId, spanId, parentSpanId, kind, status, attributes, ...span }) => ({
        name,
        traceId,
        spanId,
        parentSpanId: parentSpanId || undefined,
        kind,
        isError: status.code === ERROR,
        ms: Number(BigInt(span.endTimeUnixNano) - BigInt(span.startTimeUnixNano)) / 1e6,
        events: span.events.map((event) => event.name),
        service: toRecord(resource.attributes)['service.name'],
        attributes: toRecord(attributes),
      })),
    ),
  )
}

function toRecord(attributes: readonly Attribute[]): Record<string, unknown> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]))
}
