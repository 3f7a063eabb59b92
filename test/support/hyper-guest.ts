/** An answer of a function: the first whose texts are all in the input is given. An empty text is in each. */
export interface CannedAnswer {
  readonly when: string | readonly string[]
  readonly output: string
  /** Functions of the host that are called before, with their inputs. */
  readonly tell?: readonly (readonly [name: string, text: string])[]
  /** It is never given: the function does not return. */
  readonly isEndless?: true
  /** It takes a while. */
  readonly loops?: number
  /** Questions to the client, each with the answer of the one before as its input. The last answer replaces the output. */
  readonly ask?: readonly string[]
}

/**
 * The text of a module whose functions have canned answers, such as a plug-in made for hyper-mcp.
 *
 * @param functions - The answers of each export.
 */
export function cannedGuest(functions: Readonly<Record<string, readonly CannedAnswer[]>>): string {
  const data: string[] = []
  let end = 16
  const place = (text: string): string => {
    const bytes = Buffer.from(text)
    const at = end
    const escaped = [...bytes].map((byte) => `\\${byte.toString(16).padStart(2, '0')}`).join('')
    data.push(`(data (i32.const ${at}) "${escaped}")`)
    end += bytes.length
    return `(i32.const ${at}) (i32.const ${bytes.length})`
  }
  const told = new Set(
    Object.values(functions).flatMap((all) => all.flatMap(({ tell = [] }) => tell.map(([name]) => name))),
  )
  const exports = Object.entries(functions).map(([name, answers]) => {
    const cases = answers.map(({ when, output, tell = [], isEndless, loops = 0, ask = [] }) => {
      const calls = tell.map(([fn, text]) => `(call $${fn} (call $block ${place(text)}))`).join('\n')
      const end = isEndless ? '(loop $ever (br $ever))' : loops > 0 ? `(call $spin (i32.const ${loops}))` : ''
      const block = `(call $block ${place(output)})`
      const asked = ask.reduce((input, name) => `(call $${name} ${input})`, block)
      const answer = ask.length > 0 ? `(call $pass ${asked})` : `(call $answer ${place(output)})`
      const texts = [when].flat().map((text) => `(call $has ${place(text)})`)
      return `(if ${texts.reduce((all, each) => `(i32.and ${all} ${each})`)} (then ${calls} ${end} ${answer} (return (i32.const 0))))`
    })
    return `(func (export "${name}") (result i32) ${cases.join('\n')} (i32.const 1))`
  })
  const asked = new Set(Object.values(functions).flatMap((all) => all.flatMap(({ ask = [] }) => ask)))
  const imports = [...told, ...asked].map((name) => {
    const result = asked.has(name) ? '(result i64)' : ''
    return `(import "extism:host/user" "${name}" (func $${name} (param i64) ${result}))`
  })
  return `(module
  (import "extism:host/env" "input_length" (func $input_length (result i64)))
  (import "extism:host/env" "input_load_u8" (func $input_load_u8 (param i64) (result i32)))
  (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
  (import "extism:host/env" "store_u8" (func $store_u8 (param i64 i32)))
  (import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
  (import "extism:host/env" "length" (func $length (param i64) (result i64)))
  ${imports.join('\n')}
  (memory 4)
  ${'DATA'}
  (func $has (param $at i32) (param $length i32) (result i32)
    (local $from i64) (local $i i32)
    (block $no
      (loop $each
        (br_if $no (i64.gt_u (i64.add (local.get $from) (i64.extend_i32_u (local.get $length))) (call $input_length)))
        (local.set $i (i32.const 0))
        (block $other
          (loop $next
            (if (i32.eq (local.get $i) (local.get $length)) (then (return (i32.const 1))))
            (br_if $other (i32.ne
              (call $input_load_u8 (i64.add (local.get $from) (i64.extend_i32_u (local.get $i))))
              (i32.load8_u (i32.add (local.get $at) (local.get $i)))))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br $next)))
        (local.set $from (i64.add (local.get $from) (i64.const 1)))
        (br $each)))
    (i32.const 0))
  (func $block (param $at i32) (param $length i32) (result i64)
    (local $block i64) (local $i i32)
    (local.set $block (call $alloc (i64.extend_i32_u (local.get $length))))
    (block $done
      (loop $next
        (br_if $done (i32.eq (local.get $i) (local.get $length)))
        (call $store_u8
          (i64.add (local.get $block) (i64.extend_i32_u (local.get $i)))
          (i32.load8_u (i32.add (local.get $at) (local.get $i))))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br $next)))
    (local.get $block))
  (func $spin (param $loops i32)
    (loop $next
      (local.set $loops (i32.sub (local.get $loops) (i32.const 1)))
      (br_if $next (local.get $loops))))
  (func $pass (param $block i64)
    (call $output_set (local.get $block) (call $length (local.get $block))))
  (func $answer (param $at i32) (param $length i32)
    (call $output_set
      (call $block (local.get $at) (local.get $length))
      (i64.extend_i32_u (local.get $length))))
  ${exports.join('\n')})`.replace('DATA', () => data.join('\n'))
}

/** A question to the user, as a guest writes it. */
export const QUESTION = '{"message":"Sure?","requestedSchema":{"type":"object","properties":{}}}'

/** A 1x1 pixel. */
const PIXEL =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=='

const text = (content: string) => ({ type: 'text', text: content })
const image = { type: 'image', data: PIXEL, mimeType: 'image/png' }
const resource = (uri: string, content: string, mimeType = 'text/plain') => ({
  type: 'resource',
  resource: { uri, mimeType, text: content },
})

/** What the tools of the official conformance suite have to answer. */
const TOOLS: Readonly<Record<string, object>> = {
  test_simple_text: { content: [text('This is a simple text response for testing.')] },
  test_image_content: { content: [image] },
  test_audio_content: { content: [{ type: 'audio', data: 'UklGRiQAAABXQVZF', mimeType: 'audio/wav' }] },
  test_embedded_resource: {
    content: [resource('test://embedded-resource', 'This is an embedded resource content.')],
  },
  test_multiple_content_types: {
    content: [
      text('Multiple content types test:'),
      image,
      resource('test://mixed-content-resource', '{"test":"data","value":123}', 'application/json'),
    ],
  },
  test_error_handling: {
    isError: true,
    content: [text('This tool intentionally returns an error for testing')],
  },
  test_tool_with_progress: { content: [text('done')] },
  test_ask: { content: [] },
  test_logging_tool: { content: [text('logged')] },
  test_trigger_tool_change: { content: [text('changed')] },
  test_trigger_prompt_change: { content: [text('changed')] },
  test_missing_capability: { messages: [], maxTokens: 1 },
  json_schema_2020_12_tool: { content: [text('done')] },
  test_x_mcp_header: { content: [text('done')] },
}

/** Schemas of tools, if they matter. */
const SCHEMAS: Readonly<Record<string, object>> = {
  json_schema_2020_12_tool: {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    $defs: {
      address: {
        $anchor: 'addressDef',
        type: 'object',
        properties: { street: { type: 'string' }, city: { type: 'string' } },
      },
    },
    properties: {
      name: { type: 'string' },
      address: { $ref: '#/$defs/address' },
      contactMethod: { type: 'string', enum: ['phone', 'email'] },
      phone: { type: 'string' },
      email: { type: 'string' },
    },
    allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
    if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] },
    // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
    then: { required: ['phone'] },
    else: { required: ['email'] },
    additionalProperties: false,
  },
  test_x_mcp_header: {
    type: 'object',
    properties: {
      region: { type: 'string', 'x-mcp-header': 'Region' },
      priority: { type: 'integer', 'x-mcp-header': 'Priority' },
      verbose: { type: 'boolean', 'x-mcp-header': 'Verbose' },
    },
  },
}

const elicitation = (message: string, property: string, type = 'string') => ({
  method: 'elicitation/create',
  params: {
    message,
    requestedSchema: { type: 'object', properties: { [property]: { type } }, required: [property] },
  },
})
const sampling = (content: string) => ({
  method: 'sampling/createMessage',
  params: { messages: [{ role: 'user', content: text(content) }], maxTokens: 100 },
})
const roots = { method: 'roots/list', params: {} }

/** Tools that ask by their results: the questions of each round, by their keys, and the last answer. */
const ASKING: Readonly<Record<string, { readonly rounds: readonly object[]; readonly last: string }>> = {
  test_input_required_result_elicitation: {
    rounds: [{ user_name: elicitation('What is your name?', 'name') }],
    last: 'Hello, Alice!',
  },
  test_input_required_result_sampling: {
    rounds: [{ capital_question: sampling('What is the capital of France?') }],
    last: 'The capital of France is Paris.',
  },
  test_input_required_result_list_roots: {
    rounds: [{ client_roots: roots }],
    last: 'The roots are Test Root, file:///test/root',
  },
  test_input_required_result_request_state: {
    rounds: [{ confirm: elicitation('Please confirm', 'ok', 'boolean') }],
    last: 'state-ok',
  },
  test_input_required_result_multiple_inputs: {
    rounds: [
      {
        user_name: elicitation('What is your name?', 'name'),
        greeting: sampling('Generate a greeting'),
        client_roots: roots,
      },
    ],
    last: 'all answered',
  },
  test_input_required_result_multi_round: {
    rounds: [
      { step1: elicitation('Step 1: What is your name?', 'name') },
      { step2: elicitation('Step 2: What is your favorite color?', 'color') },
    ],
    last: 'both answered',
  },
  test_input_required_result_tampered_state: {
    rounds: [{ confirm: elicitation('Please confirm', 'ok', 'boolean') }],
    last: 'confirmed',
  },
  test_input_required_result_capabilities: {
    rounds: [{ question: sampling('Which capabilities?') }],
    last: 'answered',
  },
  test_streaming_elicitation: { rounds: [{ confirm: elicitation('Sure?', 'ok', 'boolean') }], last: 'sure' },
}

/** The request of each round has the answers of the one before, whose first key tells them apart. */
function roundsOf(name: string, rounds: readonly object[], last: object): CannedAnswer[] {
  const outputs = rounds.map((inputRequests) => ({ resultType: 'input_required', inputRequests }))
  const own = `"name":${JSON.stringify(name)}`
  const asked = rounds.map((round) => `,"inputResponses":{"${Object.keys(round)[0]}":`)
  const answers = [...outputs, last].map((output, index) => ({
    when: index === 0 ? own : `${own},"arguments":{}${asked[index - 1]}`,
    output: JSON.stringify(output),
  }))
  return answers.reverse()
}

const PROGRESS = [0, 50, 100].map(
  (progress) => ['notify_progress', JSON.stringify({ progressToken: 0, progress, total: 100 })] as const,
)
const LOGGED = [
  'notify_logging_message',
  JSON.stringify({ level: 'warning', logger: 'me', data: { n: 1 } }),
] as const

/** What tools tell the host before they answer. */
const TELLING: Readonly<Record<string, readonly (readonly [name: string, text: string])[]>> = {
  test_tool_with_progress: [...PROGRESS, LOGGED],
  test_logging_tool: [LOGGED],
  test_ask: [['create_elicitation', '{}']],
  test_trigger_tool_change: [['notify_tool_list_changed', '']],
  test_trigger_prompt_change: [['notify_prompt_list_changed', '']],
}

const PROMPTS: Readonly<Record<string, object>> = {
  test_simple_prompt: { messages: [{ role: 'user', content: text('This is a simple prompt for testing.') }] },
  test_prompt_with_arguments: {
    messages: [
      { role: 'user', content: text("Prompt with arguments: arg1='testValue1', arg2='testValue2'") },
    ],
  },
  test_prompt_with_embedded_resource: {
    messages: [
      {
        role: 'user',
        content: resource('test://example-resource', 'Embedded resource content for testing.'),
      },
      { role: 'user', content: text('Please process the embedded resource above.') },
    ],
  },
  test_prompt_with_image: {
    messages: [
      { role: 'user', content: image },
      { role: 'user', content: text('Please analyze the image above.') },
    ],
  },
}

const ASKING_PROMPT = 'test_input_required_result_prompt'

const RESOURCES: Readonly<Record<string, object>> = {
  'test://static-text': { mimeType: 'text/plain', text: 'This is the content of the static text resource.' },
  'test://static-binary': { mimeType: 'image/png', blob: PIXEL },
  'test://template/123/data': { mimeType: 'application/json', text: '{"id":"123","templateTest":true}' },
}

const always = (output: object): CannedAnswer[] => [{ when: '', output: JSON.stringify(output) }]

/** A plug-in made for hyper-mcp, with the tools, resources and prompts that the official conformance suite uses. */
export function hyperGuest(): string {
  return cannedGuest({
    list_tools: always({
      tools: Object.keys({ ...TOOLS, ...ASKING }).map((name) => ({
        name,
        description: `Tool ${name}`,
        inputSchema: SCHEMAS[name] ?? { type: 'object' },
      })),
    }),
    call_tool: [
      ...Object.entries(ASKING).flatMap(([name, { rounds, last }]) =>
        roundsOf(name, rounds, { content: [text(last)] }),
      ),
      ...Object.entries(TOOLS).map(([name, output]) => ({
        when: `"${name}"`,
        output: JSON.stringify(output),
        ...(TELLING[name] && { tell: TELLING[name] }),
        ...(name === 'test_missing_capability' && { ask: ['create_message'] }),
      })),
    ],
    list_resources: always({
      resources: Object.keys(RESOURCES)
        .slice(0, 2)
        .map((uri) => ({ uri, name: uri, description: uri, mimeType: 'text/plain' })),
    }),
    list_resource_templates: always({
      resourceTemplates: [{ uriTemplate: 'test://template/{id}/data', name: 'template' }],
    }),
    read_resource: Object.entries(RESOURCES).map(([uri, contents]) => ({
      when: `"${uri}"`,
      output: JSON.stringify({ contents: [{ uri, ...contents }] }),
    })),
    list_prompts: always({
      prompts: [...Object.keys(PROMPTS), ASKING_PROMPT].map((name) => ({ name, description: name })),
    }),
    get_prompt: [
      {
        when: '"inputResponses":{"user_context":',
        output: JSON.stringify({ messages: [{ role: 'user', content: text('With the test context') }] }),
      },
      {
        when: `"${ASKING_PROMPT}"`,
        output: JSON.stringify({
          resultType: 'input_required',
          inputRequests: { user_context: elicitation('What context should the prompt use?', 'context') },
        }),
      },
      ...Object.entries(PROMPTS).map(([name, output]) => ({
        when: `"${name}"`,
        output: JSON.stringify(output),
      })),
    ],
    complete: [
      {
        when: '"type":"prompt"',
        output: JSON.stringify({ completion: { values: ['paris', 'park'], total: 2 } }),
      },
    ],
  })
}

/** Tools whose calls become tasks, as the official conformance suite uses them. All others of the plug-in have none. */
const TASK_TOOLS: Readonly<Record<string, { readonly support: string; readonly answers: CannedAnswer[] }>> = {
  greet: { support: 'forbidden', answers: always({ content: [text('Hello, sep-2243!')] }) },
  slow_compute: {
    support: 'optional',
    answers: [
      { when: '"seconds":60', output: '', isEndless: true },
      ...always({ content: [text('computed')] }),
    ],
  },
  failing_job: { support: 'required', answers: always({ isError: true, content: [text('failed')] }) },
  protocol_error_job: {
    support: 'optional',
    answers: always({ resultType: 'input_required', inputRequests: { roots } }), // the suite has none
  },
  confirm_delete: {
    support: 'optional',
    answers: [
      { when: '"inputResponses":{"sure":', output: JSON.stringify({ content: [text('deleted')] }) },
      ...always({
        resultType: 'input_required',
        inputRequests: { sure: elicitation('Sure?', 'confirm', 'boolean') },
      }),
    ],
  },
  multi_input: {
    support: 'optional',
    answers: [
      { when: '"inputResponses":{"first":', output: JSON.stringify({ content: [text('both')] }) },
      ...always({
        resultType: 'input_required',
        inputRequests: { first: elicitation('First?', 'name'), second: elicitation('Second?', 'name') },
      }),
    ],
  },
}

/** A plug-in made for hyper-mcp with tools whose calls become tasks at once. */
export function taskGuest(): string {
  return cannedGuest({
    list_tools: always({
      tools: Object.entries(TASK_TOOLS).map(([name, { support: taskSupport }]) => ({
        ...{ name, description: name, inputSchema: { type: 'object' }, execution: { taskSupport } },
      })),
    }),
    call_tool: Object.entries(TASK_TOOLS).flatMap(([name, { answers }]) =>
      answers.map((answer) => ({ ...answer, when: [`"name":"${name}"`, ...[answer.when].flat()] })),
    ),
  })
}

/** A plug-in made for hyper-mcp whose tool asks at once, and then takes a while. */
export function lateTaskGuest(): string {
  return cannedGuest({
    list_tools: always({
      tools: [{ name: 'test_tool_with_task', description: 'Waits', inputSchema: { type: 'object' } }],
    }),
    call_tool: [
      {
        when: '"inputResponses":',
        output: JSON.stringify({ content: [text('Hello, Alice')] }),
        loops: 2_000_000_000,
      },
      ...always({ resultType: 'input_required', inputRequests: { name: elicitation('Your name?', 'name') } }),
    ],
  })
}
