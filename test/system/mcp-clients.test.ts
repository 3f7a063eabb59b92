import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client, StreamableHTTPClientTransport, type Transport } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport as OldStdioTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport as OldHttpTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { ElicitRequestSchema, ToolListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js'
import { describe, expect, onTestFinished, test } from 'vitest'
import { CLI, start } from '../support/cli-process.ts'
import { file, guestBytes } from '../support/guest.ts'
import { cannedGuest, hyperGuest } from '../support/hyper-guest.ts'
import { pluginFile } from '../support/pdk.ts'

/* The official clients of JavaScript, of both eras, over both transports. */

const INFO = { name: 'test', version: '1' }

/** Tools in three languages, and a plug-in made for hyper-mcp. */
const CONFIG = {
  port: 0,
  mcp: { pageSize: 2 },
  plugins: {
    hello: { source: pluginFile('hello', 'hello.wasm'), tool: { description: 'Greets a person.' } },
    zig: { source: pluginFile('hello-zig', 'hello.wasm') },
    count: {
      source: pluginFile('count-vowels-tinygo', 'count-vowels.wasm'),
      tool: {
        outputSchema: { type: 'object', properties: { count: { type: 'integer' } }, required: ['count'] },
      },
    },
    hyper: { source: file('hyper.wasm', guestBytes(hyperGuest())), contract: 'hyper-mcp' },
  },
}

const NAMES = ['hello', 'zig', 'count', 'test_simple_text']

/** A folder with a configuration file. */
function folderWith(config: object): string {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-mcp-clients-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  writeFileSync(join(folder, 'wasm-serve.json'), JSON.stringify(config))
  return folder
}

async function serveConfig(config: object = CONFIG) {
  const cwd = folderWith(config)
  const server = start([], { WASM_SERVE_DRAIN_MS: '0' }, { cwd })
  return { cwd, server, url: new URL(`${await server.listening()}/mcp`) }
}

/** The part of both clients that is used here. */
interface ToolUser {
  listTools(params?: {
    cursor?: string
  }): Promise<{ tools: readonly { name: string }[]; nextCursor?: string | undefined }>
  callTool(params: { name: string; arguments: Record<string, unknown> }): Promise<object>
}

async function namesOf(client: ToolUser): Promise<string[]> {
  const names: string[] = []
  let cursor: string | undefined
  do {
    const page = await client.listTools(cursor === undefined ? {} : { cursor })
    names.push(...page.tools.map(({ name }) => name))
    cursor = page.nextCursor
  } while (cursor !== undefined)
  return [...new Set(names)]
}

async function useTools(client: ToolUser): Promise<void> {
  expect(await namesOf(client)).toEqual(expect.arrayContaining(NAMES))
  const call = (name: string, input: string) => client.callTool({ name, arguments: { input } })
  for (const name of ['hello', 'zig'])
    expect(await call(name, 'Ada')).toMatchObject({
      content: [{ type: 'text', text: '{"message":"🦀 Hello Ada"}' }],
    })
  expect(await call('count', 'a queue')).toMatchObject({ structuredContent: { count: 5 } })
  expect(await client.callTool({ name: 'hello', arguments: {} })).toMatchObject({ isError: true })
  expect(await client.callTool({ name: 'test_simple_text', arguments: {} })).toMatchObject({
    content: [{ type: 'text' }],
  })
}

async function newClient(mode: 'auto' | 'legacy', transport: Transport): Promise<Client> {
  const client = new Client(INFO, { capabilities: {}, versionNegotiation: { mode } })
  await client.connect(transport)
  onTestFinished(() => client.close())
  return client
}

describe.each(['auto', 'legacy'] as const)('version 2 of the client (%s)', (mode) => {
  const version = mode === 'auto' ? '2026-07-28' : '2025-11-25'

  test('uses tools over HTTP', async () => {
    const { url } = await serveConfig()
    const client = await newClient(mode, new StreamableHTTPClientTransport(url))
    expect(client.getNegotiatedProtocolVersion()).toBe(version)
    await useTools(client)
    expect((await client.listPrompts()).prompts.length).toBeGreaterThan(2)
    expect(await client.readResource({ uri: 'test://static-text' })).toMatchObject({
      contents: [{ mimeType: 'text/plain' }],
    })
  })

  test('uses tools over standard input and output', async () => {
    const params = {
      command: process.execPath,
      args: [CLI, 'mcp'],
      cwd: folderWith(CONFIG),
      stderr: 'ignore' as const,
    }
    const client = await newClient(mode, new StdioClientTransport(params))
    expect(client.getNegotiatedProtocolVersion()).toBe(version)
    await useTools(client)
  })
})

describe('version 1 of the client', () => {
  test('uses tools over HTTP, and gets progress', async () => {
    const { url } = await serveConfig()
    const client = new OldClient(INFO)
    await client.connect(new OldHttpTransport(url) as Parameters<OldClient['connect']>[0])
    onTestFinished(() => client.close())
    await useTools(client)
    const progress: number[] = []
    await client.callTool({ name: 'test_tool_with_progress', arguments: {} }, undefined, {
      onprogress: (seen) => void progress.push(seen.progress),
    })
    expect(progress).toEqual([0, 50, 100])
  })

  test('uses tools over standard input and output', async () => {
    const params = {
      command: process.execPath,
      args: [CLI, 'mcp'],
      cwd: folderWith(CONFIG),
      stderr: 'ignore' as const,
    }
    const client = new OldClient(INFO)
    await client.connect(new OldStdioTransport(params))
    onTestFinished(() => client.close())
    await useTools(client)
  })
})

/** A tool that asks its client before it does something. */
const ASKING = {
  mcp: {},
  plugins: {
    erase: {
      source: file(
        'erase.wasm',
        guestBytes(
          cannedGuest({
            erase: [
              {
                when: '',
                output: JSON.stringify({
                  message: 'Sure?',
                  requestedSchema: { type: 'object', properties: { sure: { type: 'boolean' } } },
                }),
                ask: ['create_elicitation'],
              },
            ],
          }),
        ),
      ),
    },
  },
}

describe('clients of 2025 over standard input and output are asked, and see a changed list', () => {
  const answer = { action: 'accept' as const, content: { sure: true } }
  const result = { content: [{ type: 'text', text: JSON.stringify(answer) }] }
  const capabilities = { elicitation: {} }
  const call = { name: 'erase', arguments: { input: 'x' } }

  function paramsFor() {
    const cwd = folderWith(ASKING)
    return { cwd, params: { command: process.execPath, args: [CLI, 'mcp'], cwd, stderr: 'ignore' as const } }
  }

  test('version 1', async () => {
    const { cwd, params } = paramsFor()
    const client = new OldClient(INFO, { capabilities })
    client.setRequestHandler(ElicitRequestSchema, ({ params }) => {
      expect(params).toMatchObject({ message: 'Sure?' })
      return answer
    })
    const changed = new Promise<void>((resolve) =>
      client.setNotificationHandler(ToolListChangedNotificationSchema, () => resolve()),
    )
    const transport = new OldStdioTransport(params)
    await client.connect(transport)
    onTestFinished(() => client.close())
    expect(await client.callTool(call)).toMatchObject(result)
    const { hello } = CONFIG.plugins
    writeFileSync(
      join(cwd, 'wasm-serve.json'),
      JSON.stringify({ ...ASKING, plugins: { ...ASKING.plugins, hello } }),
    )
    process.kill(Number(transport.pid), 'SIGHUP')
    await changed
    expect(await namesOf(client)).toEqual(['erase', 'hello'])
  })

  test('version 2', async () => {
    const { params } = paramsFor()
    const client = new Client(INFO, { capabilities, versionNegotiation: { mode: 'legacy' } })
    client.setRequestHandler('elicitation/create', () => answer)
    await client.connect(new StdioClientTransport(params))
    onTestFinished(() => client.close())
    expect(client.getNegotiatedProtocolVersion()).toBe('2025-11-25')
    expect(await client.callTool(call)).toMatchObject(result)
  })
})

test('a reload adds a tool, and no call is lost meanwhile', async () => {
  const { hello } = CONFIG.plugins
  const mcp = { ttlMs: 0 } // else the client would keep its list
  const { cwd, server, url } = await serveConfig({ ...CONFIG, mcp, plugins: { hello } })
  const client = await newClient('auto', new StreamableHTTPClientTransport(url))
  expect(await namesOf(client)).toEqual(['hello'])
  let isDone = false
  const callForEver = async (caller: number) => {
    let calls = 0
    for (; !isDone; calls++) {
      const input = `${caller}-${calls}`
      const { content } = await client.callTool({ name: 'hello', arguments: { input } })
      expect(content).toEqual([{ type: 'text', text: `{"message":"🦀 Hello ${input}"}` }])
    }
    return calls
  }
  const calling = Promise.all([0, 1, 2, 3].map(callForEver))
  writeFileSync(join(cwd, 'wasm-serve.json'), JSON.stringify({ ...CONFIG, mcp }))
  server.kill('SIGHUP')
  const fresh = await newClient('auto', new StreamableHTTPClientTransport(url))
  await expect.poll(() => namesOf(fresh), { timeout: 30_000 }).toEqual(expect.arrayContaining(NAMES))
  isDone = true
  for (const calls of await calling) expect(calls).toBeGreaterThan(0)
})

test('a client that waits for a changed list sees each reload that changes it, without asking again', async () => {
  const { hello, zig } = CONFIG.plugins
  const { cwd, server, url } = await serveConfig({ ...CONFIG, plugins: { hello } })
  const seen: string[][] = []
  const onChanged = (_error: unknown, tools: readonly { name: string }[] | null) =>
    void seen.push((tools ?? []).map(({ name }) => name))
  const client = new Client(INFO, {
    ...{ capabilities: {}, versionNegotiation: { mode: 'auto' } },
    listChanged: { tools: { onChanged, autoRefresh: true, debounceMs: 0 } },
  })
  await client.connect(new StreamableHTTPClientTransport(url))
  onTestFinished(() => client.close())
  const reload = async (plugins: object, names: string[]) => {
    writeFileSync(join(cwd, 'wasm-serve.json'), JSON.stringify({ ...CONFIG, plugins }))
    server.kill('SIGHUP')
    await expect.poll(() => seen.at(-1), { timeout: 30_000 }).toEqual(names)
  }
  await reload({ hello, zig }, ['hello', 'zig'])
  await reload({ zig }, ['zig'])
  expect(seen).toHaveLength(2)
  server.kill('SIGTERM') // it does not wait for the stream
  expect(await server.ended).toMatchObject({ code: 0 })
})

test('1,000 clients that vanish leave a server that answers', async () => {
  const route = { source: file('moody.wasm', guestBytes('moody')), timeoutMs: 2_000 }
  const { url } = await serveConfig({ ...CONFIG, plugins: { moody: route, hello: CONFIG.plugins.hello } })
  const body = JSON.stringify({
    ...{ jsonrpc: '2.0', id: 1, method: 'tools/call' },
    params: { name: 'moody', arguments: { input: 'W' } },
  })
  const vanish = async () => {
    const leaving = new AbortController()
    const headers = { 'content-type': 'application/json' }
    const gone = fetch(url, { method: 'POST', headers, body, signal: leaving.signal }).catch(() => undefined)
    setImmediate(() => leaving.abort())
    await gone
  }
  for (let round = 0; round < 10; round++) await Promise.all(Array.from({ length: 100 }, vanish))
  const client = await newClient('auto', new StreamableHTTPClientTransport(url))
  const call = (name: string) => client.callTool({ name, arguments: { input: 'Ada' } })
  expect(await call('hello')).toMatchObject({ content: [{ text: '{"message":"🦀 Hello Ada"}' }] })
  expect(await call('moody')).toMatchObject({ content: [{ text: 'Ada' }] })
})
