import { argv, exit } from 'node:process'
import { fileURLToPath } from 'node:url'
import { type ESTree, parseSync, Visitor } from 'rolldown/utils'
import { sources } from './rooms.ts'

/*
 * Lifetimes: the opener closes, so it keeps what it has opened. `npm run check` finds calls of functions that open something
 * whose result nobody keeps.
 */

/** A function whose result has to be closed, or closes. */
export interface Opener {
  /** Path below `src/`. */
  readonly file: string
  readonly name: string
}

interface Declared {
  /** A private method's begins with `#`. */
  readonly name: string
  readonly kind: 'exported' | 'local' | 'method'
  /** The type of its result, or of what its promise holds. */
  readonly result: string
}

/** A class or an interface. */
interface DeclaredType {
  readonly name: string
  /** Whether it has a method that ends its lifetime. */
  readonly closes: boolean
  readonly bases: readonly string[]
}

interface DroppedCall {
  readonly name: string
  readonly isMethod: boolean
  readonly offset: number
}

interface Parsed {
  readonly functions: readonly Declared[]
  readonly types: readonly DeclaredType[]
  readonly dropped: readonly DroppedCall[]
}

/** Methods that end a lifetime. */
const CLOSERS: ReadonlySet<unknown> = new Set([
  ...['close', 'dispose', 'drain', 'leave', 'release', 'stop', 'terminate'],
])

/** A function that ends a lifetime. */
const DISPOSER = /^\(\) => (?:void|Promise<void>)$/

/** Names of methods that collections have too. */
const OF_COLLECTIONS: ReadonlySet<string> = new Set(
  [Set, Map].flatMap(({ prototype }) => Object.getOwnPropertyNames(prototype)),
)

/** The exported functions of a tree of sources that open something. @param read - The text of each file, by its path. */
export function findOpeners(read: ReadonlyMap<string, string>): Opener[] {
  const parsed = parseAll(read)
  const opens = openerCheck(parsed)
  return [...parsed].flatMap(([file, { functions }]) =>
    functions
      .filter((declared) => declared.kind === 'exported' && opens(declared))
      .map(({ name }) => ({ file, name })),
  )
}

/**
 * Calls of openers whose results are dropped, a line each: of functions by their names; of methods that return a function, by
 * names that no other method has.
 */
export function droppedLifetimes(read: ReadonlyMap<string, string>): string[] {
  const parsed = parseAll(read)
  const opens = openerCheck(parsed)
  const all = [...parsed.values()].flatMap(({ functions }) => functions)
  const isDropped = ({ name, isMethod }: DroppedCall) => {
    const called = all.filter(
      (declared) => declared.name === name && (declared.kind === 'method') === isMethod,
    )
    if (isMethod) return !OF_COLLECTIONS.has(name) && called.length > 0 && called.every(isDisposer)
    return called.some(opens)
  }
  return [...parsed].flatMap(([file, { dropped }]) =>
    dropped.filter(isDropped).map(({ name, offset }) => {
      const line = read.get(file)?.slice(0, offset).split('\n').length
      return `${file}:${line} drops the result of ${name}: nobody can end that lifetime`
    }),
  )
}

function isDisposer({ result }: Declared): boolean {
  return DISPOSER.test(result)
}

function openerCheck(parsed: ReadonlyMap<string, Parsed>): (declared: Declared) => boolean {
  const types = [...parsed.values()].flatMap((each) => each.types)
  const closable = new Set(types.filter(({ closes }) => closes).map(({ name }) => name))
  // A type is declared before or after its bases.
  for (let known = -1; known < closable.size; ) {
    known = closable.size
    for (const { name, bases } of types) if (bases.some((base) => closable.has(base))) closable.add(name)
  }
  return (declared) => isDisposer(declared) || closable.has(declared.result)
}

function parseAll(read: ReadonlyMap<string, string>): Map<string, Parsed> {
  return new Map([...read].map(([file, text]) => [file, parse(file, text)]))
}

function parse(file: string, text: string): Parsed {
  const functions: Declared[] = []
  const types: DeclaredType[] = []
  const dropped: DroppedCall[] = []
  const exported = new Set<unknown>()
  const add = (name: string | undefined, kind: Declared['kind'], type?: ESTree.TSTypeAnnotation | null) => {
    const result = type ? text.slice(type.typeAnnotation.start, type.typeAnnotation.end) : 'void'
    if (name !== undefined) functions.push({ name, kind, result: unwrapped(result) })
  }
  const addType = (name: string | undefined, members: readonly object[], bases: readonly ESTree.Node[]) => {
    const keys = members.map((member) => ('key' in member ? nameOf(member.key as ESTree.Node) : undefined))
    const closes = keys.some((key) => CLOSERS.has(key))
    if (name !== undefined) types.push({ name, closes, bases: bases.flatMap((base) => nameOf(base) ?? []) })
  }
  new Visitor({
    ExportNamedDeclaration({ declaration }) {
      exported.add(declaration)
    },
    FunctionDeclaration(node) {
      add(node.id?.name, exported.has(node) ? 'exported' : 'local', node.returnType)
    },
    MethodDefinition({ key, value }) {
      add(nameOf(key), 'method', value.returnType)
    },
    TSMethodSignature({ key, returnType }) {
      add(nameOf(key), 'method', returnType)
    },
    ClassDeclaration({ id, body, superClass, implements: kinds }) {
      addType(id?.name, body.body, [
        ...(superClass ? [superClass] : []),
        ...(kinds ?? []).map((each) => each.expression),
      ])
    },
    TSInterfaceDeclaration({ id, body, extends: bases }) {
      addType(
        id.name,
        body.body,
        bases.map((each) => each.expression),
      )
    },
    ExpressionStatement({ expression }) {
      const call = calledIn(expression)
      const isMethod = call?.callee.type === 'MemberExpression'
      const name =
        call && nameOf(isMethod ? (call.callee as ESTree.StaticMemberExpression).property : call.callee)
      if (call && name !== undefined) dropped.push({ name, isMethod, offset: call.start })
    },
  }).visit(parseSync(file, text).program)
  return { functions, types, dropped }
}

/** The type of what a promise holds, without `undefined` and the arguments of a generic type. */
function unwrapped(type: string): string {
  const [, inner = type] = /^Promise<(.*)>$/s.exec(type) ?? []
  return inner
    .replace(/ \| undefined$/, '')
    .replace(/^\((\(\) => .*)\)$/, '$1')
    .replace(/^(\w+)<.*>$/s, '$1')
}

function calledIn(expression: ESTree.Expression): ESTree.CallExpression | undefined {
  switch (expression.type) {
    case 'CallExpression':
      return expression
    case 'ChainExpression':
      return expression.expression.type === 'CallExpression' ? expression.expression : undefined
    case 'AwaitExpression':
    case 'UnaryExpression':
      return calledIn(expression.argument)
    default:
      return undefined
  }
}

function nameOf(key: ESTree.Node): string | undefined {
  if (key.type === 'PrivateIdentifier') return `#${key.name}`
  return key.type === 'Identifier' ? key.name : undefined
}

if (argv[1] === fileURLToPath(import.meta.url)) {
  const dropped = droppedLifetimes(sources())
  for (const line of dropped) console.error(line)
  exit(dropped.length === 0 ? 0 : 1)
}
