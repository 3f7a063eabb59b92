import { useState } from 'preact/hooks'
import { askEndpoint, exampleOf, listTools, parseObject, type RpcAnswer, type Schema } from './agent-tools.ts'
import { ScrolledText } from './answer-panel.tsx'
import { LabelledControl, useAttempt } from './form.tsx'
import { formatMs } from './format.ts'
import type { ViewProps } from './live-server.ts'
import { useFollowed, useSettled } from './resources.ts'

/** The tools of the MCP endpoint, and a form that calls one. The rest of the address is the name of the preselected tool. */
export function ToolsView({ server, rest }: ViewProps) {
  const url = server.history.last?.mcp
  const [headers, setHeaders] = useState('')
  const sent = useSettled(headers)
  const list = useFollowed(server, url, (asked) => listTools(server, asked, sent), sent)?.body
  const [chosen, setChosen] = useState(rest)
  const [kept, setKept] = useState<{ readonly tool: string; readonly text: string }>()
  const [problem, setProblem] = useState<string>()
  const attempt = useAttempt()
  if (url === undefined) {
    return (
      <div>
        <h1>Tools</h1>
        <p class="empty">The server has no MCP endpoint. Start it with --mcp to add one.</p>
      </div>
    )
  }
  const { tools = [], refusal } = list ?? {}
  const tool = tools.find(({ name }) => name === chosen) ?? tools[0]
  const text = kept && kept.tool === tool?.name ? kept.text : exampleOf(tool)
  const call = async (event: Event) => {
    event.preventDefault()
    if (!tool) return
    const args = parseObject(text)
    setProblem(args === undefined ? 'This is not a JSON object.' : undefined)
    if (args === undefined) return
    await attempt.run(async () => {
      const params = { name: tool.name, arguments: args }
      const { answer, ms } = await askEndpoint(server, url, headers, 'tools/call', params)
      return <ResultPanel answer={answer} ms={ms} />
    }, 'The tool was not called.')
  }
  return (
    <div>
      <h1>Tools</h1>
      <div class="columns call">
        <form class="card form" onSubmit={(event) => void call(event)}>
          <h2>Call</h2>
          {refusal !== undefined && <p class="refusal">{refusal}</p>}
          {list && tools.length === 0 && refusal === undefined && <p class="empty">There are no tools.</p>}
          {tool && (
            <>
              <LabelledControl id="tool" label="Tool">
                <select
                  id="tool"
                  value={tool.name}
                  onChange={(event) => setChosen(event.currentTarget.value)}
                >
                  {tools.map(({ name, title }) => (
                    <option key={name} value={name}>
                      {title === undefined ? name : `${name} – ${title}`}
                    </option>
                  ))}
                </select>
              </LabelledControl>
              <p class="hint">{tool.description}</p>
              <Parameters schema={tool.inputSchema} />
              <LabelledControl id="arguments" label="Arguments">
                <textarea
                  id="arguments"
                  rows={6}
                  spellcheck={false}
                  aria-describedby="arguments-problem"
                  aria-invalid={problem === undefined ? undefined : true}
                  value={text}
                  onInput={(event) => setKept({ tool: tool.name, text: event.currentTarget.value })}
                />
              </LabelledControl>
              <output id="arguments-problem" class="problem">
                {problem}
              </output>
            </>
          )}
          <LabelledControl id="tool-headers" label="Headers, one per line">
            <textarea
              id="tool-headers"
              rows={2}
              spellcheck={false}
              placeholder="x-api-key: ..."
              value={headers}
              onInput={(event) => setHeaders(event.currentTarget.value)}
            />
          </LabelledControl>
          <button class="primary" type="submit" aria-disabled={attempt.isBusy || !tool}>
            Call the tool
          </button>
        </form>
        <section class="card">
          <h2>Result</h2>
          {attempt.outcome(<p class="empty">No tool has been called yet.</p>)}
        </section>
      </div>
    </div>
  )
}

/** The parameters, with their types. */
function Parameters({ schema: { properties = {}, required = [] } }: { readonly schema: Schema }) {
  return (
    <dl class="headers">
      {Object.entries(properties).map(([name, { type = 'any', description = '' }]) => (
        <>
          <dt>{name}</dt>
          <dd>
            {String(type)}
            {required.includes(name) && ', required'} {String(description)}
          </dd>
        </>
      ))}
    </dl>
  )
}

/** The result of a call, or the error of the protocol. */
function ResultPanel({ answer: { result, error }, ms }: { readonly answer: RpcAnswer; readonly ms: number }) {
  const { content, isError = false } = result ?? {
    content: [{ type: 'text', text: error?.message ?? 'The response is not valid MCP.' }],
    isError: true,
  }
  return (
    <div class="answer">
      <p class="status">
        <strong class={`badge ${isError ? 'bad' : 'good'}`}>{isError ? 'Error' : 'OK'}</strong>
        <span>{formatMs(ms)}</span>
      </p>
      {content.map((part, index) => (
        <ScrolledText key={index} label="Result of the tool">
          {part.type === 'text' && part.text !== undefined ? part.text : JSON.stringify(part, null, 2)}
        </ScrolledText>
      ))}
    </div>
  )
}
