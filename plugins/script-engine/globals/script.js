import { Host, takeOutput } from './extism.js'
import { Response } from './fetch.js'
import { inspect, isClass, messageOf } from './inspect.js'
import { framesOf } from './stack.js'

export const module = { exports: {} }
let functions = []

let modules = {}

/** @param provided - The modules that a script can import, by their names. */
export function provide(provided) {
  modules = provided
}

export function require(name) {
  if (Object.hasOwn(modules, name)) {
    host.use(name)
    return modules[name]
  }
  host.miss(String(name))
  throw new ReferenceError(`cannot import ${JSON.stringify(String(name))}`)
}

const isFunction = (value) => typeof value === 'function' && !isClass(value)

/** The functions of a module, by name. A module that was bundled from `module.exports` has them as `default`. */
function functionsOf(exported) {
  if (exported === module.exports && isFunction(exported)) return { default: exported }
  const own = Object.entries(exported).some(([, value]) => isFunction(value))
  const isDefault = !own && typeof exported.default === 'object' && exported.default !== null
  const from = isDefault ? exported.default : exported
  const functions = Object.fromEntries(Object.entries(from).filter(([, value]) => isFunction(value)))
  const { tools } = from
  if (typeof tools !== 'object' || tools === null) return functions
  return { ...functions, [DESCRIBE]: functions[DESCRIBE] ?? (() => ({ tools: toolsOf(tools) })) }
}

/** The function that describes the others for agents. */
const DESCRIBE = 'describe'

/** A list of descriptions, or descriptions by the names of functions. */
function toolsOf(tools) {
  return Array.isArray(tools) ? tools : Object.entries(tools).map(([name, tool]) => ({ name, ...tool }))
}

/** Whether it has parameters: without any it reads the input, if at all, by itself. */
function takesInput(run) {
  const text = Function.prototype.toString.call(run)
  return run.length > 0 || !/^(?:async\b\s*)?(?:function\b)?\s*\*?\s*[\w$]*\s*\(\s*\)/.test(text)
}

/** A JSON object or array is passed as such, other text as text, other bytes as bytes; nothing as nothing. */
function argument() {
  const text = host.inputText()
  if (text === undefined || text === null) return host.input()
  if (text === '') return undefined
  if (!/^\s*[{[]/.test(text)) return text
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

function finish(result) {
  if (result === undefined) return 0
  if (result instanceof Response)
    throw new TypeError(
      'the function returned a Response: return { status, headers, body }, with --contract http',
    )
  if (takeOutput()) return typeof result === 'number' ? result | 0 : 0
  if (typeof result === 'string') Host.outputString(result)
  else if (result instanceof ArrayBuffer || ArrayBuffer.isView(result)) Host.outputBytes(result)
  else {
    const json = JSON.stringify(result)
    if (json === undefined)
      throw new TypeError(`the function returned ${inspect(result)}, which is neither text, bytes nor JSON`)
    Host.outputString(json)
  }
  return 0
}

export function call(index) {
  const { run, isGiven } = functions[index]
  takeOutput()
  const result = isGiven ? run(argument()) : run()
  return typeof result?.then === 'function' ? Promise.resolve(result).then(finish) : finish(result)
}

export const commonJs = () => module.exports

/** Only a module may have `import`, `export` and a top-level `await`. */
export function mayBeModule(error, source) {
  return error instanceof SyntaxError && /\b(?:import|export|await)\b/.test(source)
}

/** @param names - The functions that can be called, by their places in this list. */
export function start(exported, names) {
  const found = functionsOf(exported)
  functions = names.map((name) => ({ run: found[name], isGiven: takesInput(found[name]) }))
}

/** What wasm-serve learns of a script: see `ScriptFacts`. */
export function factsOf(exported, missing, used) {
  return JSON.stringify({ functions: Object.keys(functionsOf(exported)), missing, used })
}

export function factsOfFailure(error, missing) {
  try {
    const isError = error instanceof Error
    const { file, line, column } = (isError && framesOf(error).find((frame) => frame.line)) || {}
    const message = isError ? messageOf(error) : `it threw ${inspect(error)}`
    return JSON.stringify({ message, file, line, column, missing })
  } catch {
    return JSON.stringify({ message: 'it threw what cannot be shown', missing })
  }
}
