import { type ESTree, parseSync } from 'rolldown/utils'

/** A change of a source that some test should notice. */
export interface Mutant {
  readonly file: string
  /** From 1. */
  readonly line: number
  readonly start: number
  readonly end: number
  /** What stands between `start` and `end` instead. */
  readonly code: string
  /** The expression or statement that it is in. */
  readonly whole: Place & { readonly isStatement: boolean }
}

interface Place {
  readonly start: number
  readonly end: number
}

/** Operators of which each becomes the other one, or the next one. */
const OPERATORS: Readonly<Record<string, string>> = {
  '<': '<=',
  '<=': '<',
  '>': '>=',
  '>=': '>',
  '===': '!==',
  '!==': '===',
  '+': '-',
  '-': '+',
  '*': '/',
  '/': '*',
  '%': '*',
  '&': '|',
  '|': '&',
  '<<': '>>',
  '>>': '<<',
  '>>>': '<<',
  '&&': '||',
  '||': '&&',
  '+=': '-=',
  '-=': '+=',
  '++': '--',
  '--': '++',
}

const LIMIT = /^[<>]=?$/

const LOG_LEVEL = /^(trace|debug|info|warn|error)$/

/**
 * All mutants of a source in TypeScript, in the order of their places. Types, imports, keys and the texts of messages
 * have none.
 *
 * @throws if the source has a syntax error.
 */
export function mutantsOf(file: string, source: string): Mutant[] {
  const { program, errors } = parseSync(file, source)
  if (errors[0]) throw new Error(`${file}: ${errors[0].message}`)
  const mutants: Mutant[] = []
  const statements = new Map<number, Place>()
  const add: Add = ({ type, ...node }, { start, end }, code) => {
    if (source.slice(start, end) === code) return
    // An expression that begins a statement counts as all of it: in brackets, it would go on with the line before.
    const statement = type === 'ExpressionStatement' ? node : statements.get(node.start)
    const { start: from, end: to } = statement ?? node
    const whole = { start: from, end: to, isStatement: statement !== undefined }
    mutants.push({ file, line: source.slice(0, start).split('\n').length, start, end, code, whole })
  }
  visit(program, (node) => {
    if (node.type === 'ExpressionStatement') statements.set(node.start, node)
    mutate(node, source, add)
  })
  return mutants.sort((a, b) => a.start - b.start)
}

/** The source with the mutant in it. */
export function apply(source: string, { start, end, code }: Mutant): string {
  return source.slice(0, start) + code + source.slice(end)
}

/**
 * The source with all these mutants in it, by number. Only the one that runs is active: the module `switchFile` decides it.
 */
export function applyAll(source: string, mutants: ReadonlyMap<number, Mutant>, switchFile: string): string {
  const all = [...mutants].sort(
    ([, { whole: a }], [, { whole: b }]) =>
      a.start - b.start || b.end - a.end || Number(b.isStatement) - Number(a.isStatement),
  )
  const prelude = `import { isActive as $isActive } from ${JSON.stringify(switchFile)};`
  const first = source.startsWith('#!') ? source.indexOf('\n') + 1 : 0
  return source.slice(0, first) + prelude + renderPart(source, { start: first, end: source.length }, all)
}

/** @param all - Those within this place, the outermost first. */
function renderPart(source: string, { start, end }: Place, all: (readonly [number, Mutant])[]): string {
  const [first] = all
  if (!first) return source.slice(start, end)
  const { whole } = first[1]
  const isSame = ({ whole: other }: Mutant) =>
    other.start === whole.start && other.end === whole.end && other.isStatement === whole.isStatement
  const same = all.filter(([, mutant]) => isSame(mutant))
  const inside = all.filter(([, mutant]) => !isSame(mutant) && mutant.whole.end <= whole.end)
  const after = all.filter(([, mutant]) => mutant.whole.start >= whole.end)
  const original = renderPart(source, whole, inside)
  const mutated = ({ start: from, end: to, code }: Mutant) =>
    source.slice(whole.start, from) + code + source.slice(to, whole.end)
  const code = whole.isStatement
    ? `{ ${same.map(([id, mutant]) => `if ($isActive(${id})) { ${mutated(mutant)} } else `).join('')}{ ${original} } }`
    : `(${same.map(([id, mutant]) => `$isActive(${id}) ? (${mutated(mutant)}) : `).join('')}(${original}))`
  return source.slice(start, whole.start) + code + renderPart(source, { start: whole.end, end }, after)
}

type Add = (whole: ESTree.Node, place: Place, code: string) => void

function mutate(node: ESTree.Node, source: string, add: Add): void {
  const text = ({ start, end }: ESTree.Node) => source.slice(start, end)
  switch (node.type) {
    case 'Literal':
      for (const code of otherValues(node.value)) add(node, node, code)
      break
    case 'BinaryExpression':
      if (LIMIT.test(node.operator) && text(node.right) !== '0')
        add(node, node.right, `(${text(node.right)}) * 4`)
      otherOperator(node.left.end, node.right.start, node.operator)
      break
    case 'LogicalExpression':
      if (node.operator === '??') add(node, node, `(${text(node.right)})`)
      else otherOperator(node.left.end, node.right.start, node.operator)
      break
    case 'AssignmentExpression':
      otherOperator(node.left.end, node.right.start, node.operator)
      break
    case 'UpdateExpression':
      otherOperator(node.start, node.end, node.operator)
      break
    case 'UnaryExpression':
      if (node.operator === '!') add(node, node, `(${text(node.argument)})`)
      break
    case 'IfStatement':
    case 'WhileStatement':
    case 'ConditionalExpression':
      add(node.test, node.test, `!(${text(node.test)})`)
      break
    case 'ExpressionStatement':
      if (isCall(node.expression)) add(node, node, ';')
      break
  }

  function otherOperator(from: number, to: number, operator: string): void {
    const other = OPERATORS[operator]
    const start = source.indexOf(operator, from)
    if (other !== undefined && start < to) add(node, { start, end: start + operator.length }, other)
  }
}

/**
 * The value that does not count: only tests of how long or how large something exactly is would notice the next number. A
 * string with a space is a message.
 */
function otherValues(value: unknown): readonly string[] {
  switch (typeof value) {
    case 'number':
      return [value === 0 ? '1' : '0']
    case 'bigint':
      return [value === 0n ? '1n' : '0n']
    case 'boolean':
      return [String(!value)]
    case 'string':
      return value.includes(' ') ? [] : [value === '' ? "'mutant'" : "''"]
    default:
      return []
  }
}

/** A statement that only calls, and can be left out. */
function isCall(node: ESTree.Expression): boolean {
  if (node.type === 'AwaitExpression') return isCall(node.argument)
  return node.type === 'CallExpression' && node.callee.type !== 'Super'
}

/** Goes through what runs. The texts of errors and of logged lines are left out: tests assert codes. */
function visit(node: ESTree.Node, take: (node: ESTree.Node) => void): void {
  if (isLeftOut(node)) return
  take(node)
  for (const [name, value] of Object.entries(node)) {
    if (name === 'key' && !('computed' in node && node.computed)) continue
    for (const child of Array.isArray(value) ? value : [value]) if (isNode(child)) visit(child, take)
  }
}

function isLeftOut(node: ESTree.Node): boolean {
  switch (node.type) {
    case 'TSAsExpression':
    case 'TSSatisfiesExpression':
      return false
    case 'ImportDeclaration':
    case 'ExportAllDeclaration':
    case 'ImportExpression':
    case 'ThrowStatement':
      return true
    case 'ExportNamedDeclaration':
      return node.source !== null
    case 'NewExpression':
      return node.callee.type === 'Identifier' && node.callee.name.endsWith('Error')
    case 'CallExpression': {
      const { callee } = node
      return (
        callee.type === 'MemberExpression' &&
        callee.property.type === 'Identifier' &&
        LOG_LEVEL.test(callee.property.name)
      )
    }
    default:
      return node.type.startsWith('TS')
  }
}

function isNode(value: unknown): value is ESTree.Node {
  return typeof value === 'object' && value !== null && 'type' in value && typeof value.type === 'string'
}
