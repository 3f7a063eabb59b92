import { base64Of, bytesOf, fromBase64 } from './bytes.js'

/* The interface of Extism's JavaScript PDK. */

/** Whether the call has output. */
let hasOutput = false

/** @returns whether there was output since it was asked before. */
export function takeOutput() {
  const had = hasOutput
  hasOutput = false
  return had
}

export const Host = {
  inputBytes: () => host.input().buffer,
  inputString: () => textInput(),
  outputBytes: (data) => {
    hasOutput = true
    host.output(bytesOf(data, 'the output'))
    return true
  },
  outputString: (text) => {
    hasOutput = true
    host.outputText(String(text).toWellFormed())
    return true
  },
  arrayBufferToBase64: (data) => base64Of(bytesOf(data)),
  base64ToArrayBuffer: (text) => fromBase64(text).buffer,
  getFunctions: () => hostFunctions,
}

/** Functions of the host that the script declares, by name. */
let hostFunctions = {}

/** @param declared - See `HostFunction`. */
export function declareFunctions(declared) {
  hostFunctions = Object.fromEntries(
    declared.map(({ name, params, result }, place) => [
      name,
      (...given) => callHost(place, params, result, given),
    ]),
  )
}

function callHost(place, params, result, given) {
  const values = new DataView(new ArrayBuffer(8 * params.length))
  for (const [at, type] of params.entries()) write(values, at * 8, type, given[at])
  const { buffer } = host.callUser(place, new Uint8Array(values.buffer))
  return result && read(new DataView(buffer), result)
}

/** A block is given as its offset. */
function write(values, at, type, given) {
  const value = given instanceof MemoryHandle ? given.offset : given
  if (type === 'I64')
    values.setBigInt64(at, typeof value === 'bigint' ? value : BigInt(within(value, 2 ** 63)), true)
  else if (type === 'I32') values.setInt32(at, within(value, 2 ** 31), true)
  else if (type === 'F32') values.setFloat32(at, Number(value), true)
  else values.setFloat64(at, Number(value), true)
}

/** An integer: the nearest one that the type holds, as in Extism's JavaScript PDK. */
function within(value, limit) {
  const whole = Math.trunc(Number(value)) || 0
  return whole < limit ? Math.max(whole, -limit) : limit === 2 ** 63 ? 2n ** 63n - 1n : limit - 1
}

/** Numbers, as in Extism's JavaScript PDK; an integer that a number cannot hold is a bigint. */
function read(values, type) {
  if (type === 'I32') return values.getInt32(0, true)
  if (type === 'F32') return values.getFloat32(0, true)
  if (type === 'F64') return values.getFloat64(0, true)
  const value = values.getBigInt64(0, true)
  return Number.isSafeInteger(Number(value)) ? Number(value) : value
}

function textInput() {
  return host.inputText() ?? host.decode(host.input(), false)
}

export const Config = { get: (name) => host.config(String(name)) ?? null }

export const Var = {
  getBytes: (name) => host.getVar(String(name))?.buffer ?? null,
  getString: (name) => {
    const bytes = host.getVar(String(name))
    return bytes ? host.decode(bytes, false) : null
  },
  set: (name, value) => host.setVar(String(name), bytesOf(value, 'the value of a variable')),
  remove: (name) => host.setVar(String(name)),
}

export const Http = {
  request: ({ url, method = 'GET', headers = {} }, body) => {
    const { status, headers: text, body: bytes } = send(url, method, headers, body)
    return { status, body: host.decode(bytes, false), ...(text && { headers: joinedHeaders(text) }) }
  },
}

export function send(url, method, headers, body) {
  const texts = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]))
  const about = JSON.stringify({ url: String(url), method: String(method), headers: texts })
  return body === undefined || body === null
    ? host.request(about)
    : host.request(about, bytesOf(body, 'a body'))
}

function joinedHeaders(json) {
  const joined = {}
  for (const [name, value] of headersOf(json))
    joined[name] = name in joined ? `${joined[name]}, ${value}` : value
  return joined
}

/** Extism hosts give headers as texts, or lists of them. */
export function headersOf(json) {
  const headers = json ? JSON.parse(json) : {}
  return Object.entries(headers).flatMap(([name, value]) => [value].flat().map((text) => [name, text]))
}

export class MemoryHandle {
  constructor(offset, len) {
    Object.assign(this, { offset, len })
  }
  readBytes() {
    return host.read(Number(this.offset)).buffer
  }
  readString() {
    return host.decode(host.read(Number(this.offset)), false)
  }
  readJsonObject() {
    return JSON.parse(this.readString())
  }
  readUInt32() {
    return new DataView(this.readBytes()).getUint32(0, true)
  }
  readUInt64() {
    return new DataView(this.readBytes()).getBigUint64(0, true)
  }
  readFloat32() {
    return new DataView(this.readBytes()).getFloat32(0, true)
  }
  readUFloat64() {
    return new DataView(this.readBytes()).getFloat64(0, true)
  }
  free() {
    host.free(Number(this.offset))
  }
}

function blockOf(data) {
  const bytes = bytesOf(data)
  return new MemoryHandle(host.allocate(bytes), bytes.length)
}

export const Memory = {
  fromString: (text) => blockOf(String(text)),
  fromBuffer: (data) => blockOf(data),
  fromJsonObject: (value) => blockOf(JSON.stringify(value)),
  allocUInt32: (value) => blockOf(Uint32Array.of(value)),
  allocUInt64: (value) => blockOf(BigUint64Array.of(BigInt(value))),
  allocFloat32: (value) => blockOf(Float32Array.of(value)),
  allocFloat64: (value) => blockOf(Float64Array.of(value)),
  find: (block) => {
    const offset = block instanceof MemoryHandle ? block.offset : block
    const length = host.lengthOf(Number(offset))
    return length > 0 ? new MemoryHandle(offset, length) : undefined
  },
}
