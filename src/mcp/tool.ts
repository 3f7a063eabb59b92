import { ToolArgumentsInvalidError } from '../errors/errors.ts'
import { connectAgent, mayUseAgent } from '../guest/services/agent.ts'
import { jsonAt } from '../platform/json-parts.ts'
import type { CallableRoute } from '../route/callable-route.ts'
import { knownError, logFailure } from '../route/error-response.ts'
import { fillerOf } from './defaults.ts'
import type { ToolArguments, ToolDescription, ToolInput } from './description.ts'
import type { Exchange } from './exchange.ts'
import { channelTo, noChanges } from './guest-messages.ts'
import { httpCallOf, httpResult } from './http-tool.ts'
import type { Members } from './json-rpc.ts'
import { type ParameterHeader, parameterHeadersOf } from './parameter-headers.ts'
import { isQuestion, unlessAsked } from './questions.ts'
import { compileSchema } from './schema.ts'
import { type TaskRule, taskRule } from './tasks.ts'
import { failedResult, resultOf, type ToolResult } from './tool-result.ts'

/** A tool of the MCP endpoint. */
export interface Tool {
  readonly name: string
  /** Whether it has a description, by which models choose. */
  readonly isDescribed: boolean
  /** The entry in `tools/list`. */
  readonly listed: Members
  /** Arguments that clients repeat in headers. */
  readonly headers: readonly ParameterHeader[]
  /** When its calls become tasks. undefined: never. */
  readonly task: TaskRule | undefined
  /**
   * Checks the arguments and calls the guest. Failures are results with `isError`, because models can read and correct those.
   *
   * @throws only the question of a guest for its client.
   */
  call(args: ToolArguments, exchange: Exchange): Promise<ToolResult>
}

/**
 * Makes a tool of a route. Its schemas are compiled once.
 *
 * @throws {@link ToolSchemaInvalidError} if a schema is invalid.
 */
export function openTool(route: CallableRoute, described: ToolDescription): Tool {
  const { name, title, description, isDescribed, inputSchema, outputSchema, annotations, input } = described
  const checkInput = compileSchema(inputSchema, 'input schema', name)
  const fill = fillerOf(inputSchema)
  const isHttp = route.options.contract === 'http'
  const renderCall = isHttp ? httpCallOf(route, input) : undefined
  const readOutput = isHttp ? httpResult : resultOf
  const call = mayUseAgent(route.plugin)
    ? (input: Uint8Array, exchange: Exchange) => callWithAgent(route, input, exchange)
    : (input: Uint8Array, { caller }: Exchange) => route.call(input, caller)
  const checkOutput = outputSchema && compileSchema(outputSchema, 'output schema', name)
  return {
    name,
    isDescribed,
    listed: {
      name,
      ...(title !== undefined && { title }),
      description,
      inputSchema,
      ...(outputSchema && { outputSchema }),
      ...(annotations && { annotations }),
    },
    headers: parameterHeadersOf(inputSchema, name),
    task: taskRule(route.options),
    async call(args, exchange) {
      try {
        const filled = fill(args)
        const problem = checkInput(filled.value)
        // Generators write defaults that do not fit, such as null for a text: they are not filled in.
        const isByDefault = problem !== undefined && filled !== args && checkInput(args.value) === undefined
        if (problem !== undefined && !isByDefault) throw new ToolArgumentsInvalidError(name, problem)
        const given = isByDefault ? args : filled
        const bytes = inputBytes(given, input)
        const output = await call(renderCall ? renderCall(given, bytes, exchange.caller) : bytes, exchange)
        return readOutput(output, described, checkOutput)
      } catch (thrown) {
        if (isQuestion(thrown)) throw thrown
        const error = knownError(thrown)
        logFailure(error, exchange.caller.request, route.served)
        return failedResult(error)
      }
    },
  }
}

/** Calls a guest that may send messages to its client, or ask it. */
function callWithAgent(route: CallableRoute, input: Uint8Array, exchange: Exchange): Promise<Uint8Array> {
  const { caller, questions } = exchange
  connectAgent(caller.request, channelTo(exchange, questions, noChanges()))
  return unlessAsked(route.call(input, caller), questions)
}

function inputBytes({ value, text }: ToolArguments, input: ToolInput): Uint8Array {
  switch (input.form) {
    case 'none':
      return new Uint8Array()
    case 'json':
      return Buffer.from(text)
    case 'parameter': {
      if (input.as === 'json') return Buffer.from(jsonAt(text, input.name) ?? 'null')
      const given = value[input.name]
      return Buffer.from(typeof given === 'string' ? given : '', input.as === 'text' ? 'utf8' : 'base64')
    }
  }
}
