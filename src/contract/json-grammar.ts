/* The grammar of JSON (RFC 8259) as a table, by which a byte takes one step: the state and the byte say what comes next. */

/** Where a value is: it is an item of what is read, or within one, in an array or in an object. */
const CONTEXTS = ['item', 'array', 'object'] as const

export type Context = (typeof CONTEXTS)[number]

const KINDS = [
  ...['value', 'after', 'array', 'object', 'name', 'colon'],
  ...['text', 'escape', 'hex 4', 'hex 3', 'hex 2', 'hex 1'],
  ...['name text', 'name escape', 'name hex 4', 'name hex 3', 'name hex 2', 'name hex 1'],
  ...['minus', 'zero', 'digits', 'point', 'fraction', 'e', 'sign', 'exponent'],
  ...['t', 'tr', 'tru', 'f', 'fa', 'fal', 'fals', 'n', 'nu', 'nul'],
] as const

/** What was read, or what is expected; each in each context. */
type Kind = (typeof KINDS)[number]

const ACTIONS = [
  ...['error', 'text begins', 'name ends', 'item ends', 'last item ends'],
  ...['array begins', 'object begins', 'array or object ends'],
] as const

/** More has to be done than to take the next state. */
type Action = (typeof ACTIONS)[number]

/** Number of a state: a byte can be added to it. */
export function stateOf(kind: Kind, context: Context): number {
  return (KINDS.indexOf(kind) * CONTEXTS.length + CONTEXTS.indexOf(context)) << 8
}

/** By the number of a state, in steps of 256: the state behind a value in the same context. */
export const AFTER = Uint16Array.from(
  KINDS.flatMap(() => CONTEXTS.map((context) => stateOf('after', context))),
)

export function actionOf(action: Action): number {
  return (KINDS.length * CONTEXTS.length + ACTIONS.indexOf(action)) << 8
}

/** The first of the actions. */
export const ERROR = actionOf('error')

/** By state and byte, added up: the next state, or an action. */
export const NEXT = new Uint16Array(ERROR).fill(ERROR)

const SPACES = ' \t\n\r'
const DIGITS = '0123456789'
const HEX_DIGITS = `${DIGITS}abcdefABCDEF`

/** All that a text may hold as it is. */
const FIRST_OF_TEXT = 0x20

for (const context of CONTEXTS) {
  const all = (from: Kind, first: number, next: number) => {
    NEXT.fill(next, stateOf(from, context) | first, (stateOf(from, context) | 0xff) + 1)
  }
  const on = (from: Kind, bytes: string, next: Kind | Action) => {
    const number = isAction(next) ? actionOf(next) : stateOf(next, context)
    for (const byte of Buffer.from(bytes)) NEXT[stateOf(from, context) | byte] = number
  }

  on('value', SPACES, 'value')
  on('value', '"', context === 'item' ? 'text begins' : 'text')
  on('value', '[', 'array')
  on('value', '{', 'object')
  on('value', '-', 'minus')
  on('value', '0', 'zero')
  on('value', '123456789', 'digits')
  on('value', 't', 't')
  on('value', 'f', 'f')
  on('value', 'n', 'n')

  // An empty one is passed over without an action.
  all('array', 0, actionOf('array begins'))
  on('array', SPACES, 'array')
  on('array', ']', 'after')
  all('object', 0, actionOf('object begins'))
  on('object', SPACES, 'object')
  on('object', '}', 'after')

  on('name', SPACES, 'name')
  on('name', '"', 'name text')
  on('colon', SPACES, 'colon')
  on('colon', ':', 'value')

  for (const prefix of ['', 'name '] as const) {
    all(`${prefix}text`, FIRST_OF_TEXT, stateOf(`${prefix}text`, context))
    on(`${prefix}text`, '\\', `${prefix}escape`)
    on(`${prefix}escape`, '"\\/bfnrt', `${prefix}text`)
    on(`${prefix}escape`, 'u', `${prefix}hex 4`)
    on(`${prefix}hex 4`, HEX_DIGITS, `${prefix}hex 3`)
    on(`${prefix}hex 3`, HEX_DIGITS, `${prefix}hex 2`)
    on(`${prefix}hex 2`, HEX_DIGITS, `${prefix}hex 1`)
    on(`${prefix}hex 1`, HEX_DIGITS, `${prefix}text`)
  }
  on('text', '"', 'after')
  on('name text', '"', context === 'item' ? 'name ends' : 'colon')

  for (const from of ['after', 'zero', 'digits', 'fraction', 'exponent'] as const) {
    on(from, SPACES, 'after')
    if (context === 'item') {
      on(from, ',', 'item ends')
      on(from, ']}', 'last item ends')
    } else {
      on(from, ',', context === 'array' ? 'value' : 'name')
      on(from, context === 'array' ? ']' : '}', 'array or object ends')
    }
  }
  on('minus', '0', 'zero')
  on('minus', '123456789', 'digits')
  on('digits', DIGITS, 'digits')
  for (const from of ['zero', 'digits'] as const) on(from, '.', 'point')
  on('point', DIGITS, 'fraction')
  on('fraction', DIGITS, 'fraction')
  for (const from of ['zero', 'digits', 'fraction'] as const) on(from, 'eE', 'e')
  on('e', '+-', 'sign')
  for (const from of ['e', 'sign', 'exponent'] as const) on(from, DIGITS, 'exponent')

  on('t', 'r', 'tr')
  on('tr', 'u', 'tru')
  on('tru', 'e', 'after')
  on('f', 'a', 'fa')
  on('fa', 'l', 'fal')
  on('fal', 's', 'fals')
  on('fals', 'e', 'after')
  on('n', 'u', 'nu')
  on('nu', 'l', 'nul')
  on('nul', 'l', 'after')
}

function isAction(next: Kind | Action): next is Action {
  return (ACTIONS as readonly string[]).includes(next)
}
