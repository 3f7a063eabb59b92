import type { FastifyReply } from 'fastify'
import { AdminRequestError } from '../../errors/errors.ts'
import type { CallTotals, RouteMeter } from '../../observe/metrics.ts'
import { EventLoopYielder } from '../../platform/event-loop.ts'
import type { JsonSchema } from '../../route/openapi/xtp-schema.ts'
import type { ApiRequest, Endpoint } from './endpoint.ts'
import { totalsOf } from './route-endpoints.ts'

/*
 * Lists are answered page by page: a page is found among 10,000 items, and rendered, in steps between which the event
 * loop turns.
 */

/** The maximum number of items in an answer; also the default, so that a small list is one page. */
const MAX_ITEMS = 1_000

/** Counters to sort by: the highest first. */
const COUNTERS: readonly string[] = ['calls', 'failures', 'guestMs'] satisfies (keyof CallTotals)[]

/** An item of a list, as far as it is needed to find it. */
export interface ListItem {
  readonly id: string
  /** The text to sort by: a URL or a name. */
  readonly title: string
  /** The text to search in, in lower case. */
  readonly text: string
  /** The counters to sort by. */
  readonly meters: readonly RouteMeter[]
}

/** The query parameters of a list. @param title - The name of the sort by {@link ListItem.title}. */
export function listQuery(title: string, searched: string): Readonly<Record<string, JsonSchema>> {
  return {
    search: {
      type: 'string',
      maxLength: 200,
      description: `Only those whose ${searched} contains this text. Case-insensitive.`,
    },
    sort: {
      type: 'string',
      enum: [title, ...COUNTERS],
      description: `By \`${title}\`, or by a counter, the highest first. Default: the order of the configuration, then what was added.`,
    },
    limit: {
      type: 'string',
      pattern: '^([1-9][0-9]{0,2}|1000)$',
      default: `${MAX_ITEMS}`,
      description: `The maximum number in the response: 1 to ${MAX_ITEMS}.`,
    },
    cursor: {
      type: 'string',
      maxLength: 4_000,
      description: 'Where the page begins: part of the `Link` of the previous page.',
    },
  }
}

/** The headers of a page. */
export const LIST_HEADERS = {
  'x-total-count': {
    description: 'The number of items on all pages.',
    schema: { type: 'integer' },
  },
  link: {
    description:
      'The URL of the next page, with `rel="next"` (RFC 8288). Without it, this page is the last one.',
    schema: { type: 'string' },
  },
} as const satisfies Endpoint['answers'][number]['headers']

/**
 * Answers with the page that the query asks for.
 *
 * @param render - An item as JSON text.
 * @throws {@link AdminRequestError} for an invalid cursor.
 */
export async function sendPage<Item extends ListItem>(
  items: readonly Item[],
  { limit = `${MAX_ITEMS}`, search = '', sort, cursor }: ApiRequest['query'],
  reply: FastifyReply,
  render: (item: Item) => string,
): Promise<Buffer> {
  const begin = cursor === undefined ? undefined : placeOf(readCursor(cursor, sort), items)
  const page = new Page<Item>(Number(limit), begin)
  const wanted = search.toLowerCase()
  const pace = new EventLoopYielder()
  for (const [index, item] of items.entries()) {
    if (item.text.includes(wanted)) page.add({ value: sortValue(item, sort), index, item })
    await pace.step()
  }
  const texts: string[] = []
  for (const { item } of page.entries) {
    texts.push(render(item))
    await pace.step()
  }
  reply.header('x-total-count', page.total)
  const last = page.entries.at(-1)
  if (page.hasMore && last) reply.header('link', `<${nextUrl(reply.request.url, last, sort)}>; rel="next"`)
  reply.type('application/json; charset=utf-8')
  return Buffer.from(`[${texts.join()}]`)
}

/** Where an item is in the order: by value, and by index among equal values. */
interface ListPosition {
  readonly value: string | number
  readonly index: number
}

interface Entry<Item> extends ListPosition {
  readonly item: Item
}

function sortValue(item: ListItem, sort: string | undefined): string | number {
  if (sort === undefined) return 0
  return COUNTERS.includes(sort) ? -totalsOf(item.meters)[sort as keyof CallTotals] : item.title
}

function isBefore(one: ListPosition, other: ListPosition): boolean {
  return one.value === other.value ? one.index < other.index : one.value < other.value
}

/** The first entries after a place. To sort all of them would block the event loop. */
class Page<Item> {
  readonly entries: Entry<Item>[] = []
  /** Number of entries on all pages. */
  total = 0
  /** Whether entries follow. */
  hasMore = false
  readonly #limit: number
  readonly #begin: ListPosition | undefined

  constructor(limit: number, begin: ListPosition | undefined) {
    this.#limit = limit
    this.#begin = begin
  }

  add(entry: Entry<Item>): void {
    this.total++
    if (this.#begin && !isBefore(this.#begin, entry)) return
    const last = this.entries[this.#limit - 1]
    this.hasMore ||= last !== undefined
    if (last && isBefore(last, entry)) return
    if (last) this.entries.pop()
    this.entries.splice(this.#indexOf(entry), 0, entry)
  }

  #indexOf(entry: ListPosition): number {
    let [low, high] = [0, this.entries.length]
    while (low < high) {
      const middle = (low + high) >> 1
      const other = this.entries[middle]
      if (other && isBefore(other, entry)) low = middle + 1
      else high = middle
    }
    return low
  }
}

/** The last item of a page. */
interface Cursor extends ListPosition {
  readonly id: string
}

function nextUrl(url: string, { value, index, item }: Entry<ListItem>, sort = ''): string {
  const { pathname, searchParams } = new URL(url, 'http://localhost')
  const cursor = JSON.stringify([sort, value, index, item.id])
  searchParams.set('cursor', Buffer.from(cursor).toString('base64url'))
  return `${pathname}?${searchParams}`
}

/** @throws {@link AdminRequestError} if it was not made by {@link nextUrl} for the same order. */
function readCursor(text: string, sort = ''): Cursor {
  try {
    const [order, value, index, id] = JSON.parse(Buffer.from(text, 'base64url').toString())
    const isText = sort !== '' && !COUNTERS.includes(sort)
    if (order === sort && typeof value === (isText ? 'string' : 'number') && Number.isInteger(index))
      return { value, index, id }
  } catch (error) {
    if (!(error instanceof SyntaxError || error instanceof TypeError)) throw error
  }
  throw new AdminRequestError('Invalid value for query parameter cursor')
}

/** Changes since then may have moved the item, or removed it: then the next one has its index. */
function placeOf({ value, index, id }: Cursor, items: readonly ListItem[]): ListPosition {
  if (items[index]?.id === id) return { value, index }
  const moved = items.findIndex((item) => item.id === id)
  return { value, index: moved < 0 ? index - 1 : moved }
}
