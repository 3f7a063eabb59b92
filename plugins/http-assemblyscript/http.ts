import { Host } from '@extism/as-pdk'
import { decodeBase64, encodeBase64 } from './base64.ts'
import { JsonReader, quoted } from './json.ts'

/** What was sent once or several times, by name. */
type Values = Map<string, string[]>

/** A request of wasm-serve's `http` contract. Names of headers are in lower case. */
export class Request {
  method: string = ''
  /** As sent, with the query. */
  url: string = ''
  /** As sent, without it. */
  path: string = ''
  /** What the route's URL names; `*` is what a wildcard stands for. */
  params: Values = new Map<string, string[]>()
  query: Values = new Map<string, string[]>()
  headers: Values = new Map<string, string[]>()
  remoteAddress: string = ''
  requestId: string = ''
  /** The body's bytes, whatever they are. */
  body: Uint8Array = new Uint8Array(0)

  /** Reads the input. */
  static read(): Request {
    const request = new Request()
    const json = new JsonReader(Host.inputString())
    while (json.hasNext()) request.set(json.readKey(), json)
    return request
  }

  private set(field: string, json: JsonReader): void {
    if (field === 'method') this.method = json.readString()
    else if (field === 'url') this.url = json.readString()
    else if (field === 'path') this.path = json.readString()
    else if (field === 'params') this.params = json.readValues()
    else if (field === 'query') this.query = json.readValues()
    else if (field === 'headers') this.headers = json.readValues()
    else if (field === 'remoteAddress') this.remoteAddress = json.readString()
    else if (field === 'requestId') this.requestId = json.readString()
    else if (field === 'body') this.body = Uint8Array.wrap(String.UTF8.encode(json.readString()))
    else if (field === 'bodyBase64') this.body = decodeBase64(json.readString())
  }
}

/** The first of the values, or what stands for none. */
export function first(values: Values, name: string, none: string): string {
  return values.has(name) && values.get(name).length > 0 ? values.get(name)[0] : none
}

/** An answer, built step by step. */
export class Response {
  private headers: Values = new Map<string, string[]>()
  private body: string = ''

  /** No body; status from 200 to 599. */
  constructor(private status: i32) {}

  /** Adds a header; one that is there already is then there twice. */
  header(name: string, value: string): Response {
    if (!this.headers.has(name)) this.headers.set(name, [])
    this.headers.get(name).push(value)
    return this
  }

  text(text: string): Response {
    this.body = `,"body":${quoted(text)}`
    return this
  }

  bytes(bytes: Uint8Array): Response {
    this.body = `,"bodyBase64":"${encodeBase64(bytes)}"`
    return this
  }

  /** JSON that is already text. */
  json(json: string): Response {
    this.body = `,"body":${quoted(json)}`
    return this.header('content-type', 'application/json')
  }

  /** Makes it the output. */
  write(): i32 {
    const names = this.headers.keys()
    const members: string[] = []
    for (let i = 0; i < names.length; i++) {
      const values = this.headers.get(names[i]).map<string>((value) => quoted(value))
      members.push(`${quoted(names[i])}:[${values.join(',')}]`)
    }
    const json = `{"status":${this.status},"headers":{${members.join(',')}}${this.body}}`
    // `Host.outputString` takes UTF-16 units for bytes, and fails on what is not ASCII (as-pdk 1.0.0).
    Host.output(Uint8Array.wrap(String.UTF8.encode(json)))
    return 0
  }
}
