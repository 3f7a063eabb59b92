import { toNodeHandler } from '@modelcontextprotocol/node'
import { createMcpHandler, fromJsonSchema, McpServer } from '@modelcontextprotocol/server'
import Fastify from 'fastify'
import { listen } from './listen.js'

/*
 * The official server of MCP on Fastify as its documentation shows it: a server per request. hello is a tool in JavaScript.
 * Its schema is made once, so that the check is compiled once.
 */

const inputSchema = fromJsonSchema({
  type: 'object',
  properties: { input: { type: 'string' } },
  required: ['input'],
  additionalProperties: false,
})

const handler = toNodeHandler(
  createMcpHandler(() => {
    const server = new McpServer({ name: 'hello', version: '1.0.0' }, { capabilities: { tools: {} } })
    server.registerTool('hello', { description: 'Greets a person.', inputSchema }, ({ input }) => ({
      content: [{ type: 'text', text: `{"message":"🦀 Hello ${input}"}` }],
    }))
    return server
  }),
)

const app = Fastify()
app.post('/mcp', async (request, reply) => {
  reply.hijack()
  await handler(request.raw, reply.raw, request.body)
})
await listen(app)
