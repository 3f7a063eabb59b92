import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { LabelledControl, LabelledInput } from './form.tsx'
import { formatCount } from './format.ts'
import type { LiveServer } from './live-server.ts'
import { usePage, useSettled } from './resources.ts'

/** The number of items on a page. */
const PAGE_ITEMS = 50

/** Shorter lists need no search. */
const FEW_ITEMS = 10

/** An order by counters is read again after this number of polls. */
const ORDER_POLLS = 10

/** Orders by counters, by their names in the admin API. */
const COUNTER_ORDERS: Readonly<Record<string, string>> = {
  calls: 'Most calls',
  failures: 'Most failed calls',
  guestMs: 'Most guest time',
}

interface ListingProps<Item> {
  readonly server: LiveServer
  /** The path of the list in the admin API. */
  readonly path: string
  /** What the items are called: `routes`. */
  readonly name: string
  /** The order by text: its name in the admin API and on the page. */
  readonly textOrder: readonly [sort: string, label: string]
  readonly children: (items: readonly Item[]) => ComponentChildren
  /** Shown instead of a list without items. */
  readonly empty: ComponentChildren
}

/** One page of a list, with its search, its order and a way to the other pages. The address keeps search and order. */
export function Listing<Item>({ server, path, name, textOrder, children, empty }: ListingProps<Item>) {
  const orders = Object.entries({ '': 'Configuration', ...COUNTER_ORDERS, [textOrder[0]]: textOrder[1] })
  const [typed, setTyped] = useState(() => addressQuery().get('search') ?? '')
  const [sort, setSort] = useState(() => addressQuery().get('sort') ?? '')
  const search = useSettled(typed.trim())
  const query = String(new URLSearchParams({ ...(search && { search }), ...(sort && { sort }) }))
  const first = `${path}?limit=${PAGE_ITEMS}${query && `&${query}`}`
  /** The pages after the first one, up to this one. */
  const [later, setLater] = useState<readonly string[]>([])
  const list = useRef<HTMLDivElement>(null)
  const page = usePage<Item>(server, later.at(-1) ?? first, useOrderTime(server, sort, list.current))
  useEffect(() => {
    setLater([])
    replaceAddressQuery(query)
  }, [query])
  if (!page) return <div />
  const { items, total, next } = page
  const begin = later.length * PAGE_ITEMS
  const isTurned = next !== undefined || later.length > 0
  const shown = isTurned ? `${formatCount(begin + 1)}–${formatCount(begin + items.length)} of ` : ''
  if (total <= FEW_ITEMS && query === '' && typed === '') return items.length > 0 ? children(items) : empty
  return (
    <div>
      <search class="tools">
        <LabelledInput
          id="list-search"
          label={`Search the ${name}`}
          type="search"
          maxLength={200}
          placeholder="URL or name"
          value={typed}
          onInput={(event) => setTyped(event.currentTarget.value)}
        />
        <LabelledControl id="list-sort" label="Sort by">
          <select id="list-sort" value={sort} onChange={(event) => setSort(event.currentTarget.value)}>
            {orders.map(([value, label]) => (
              <option key={value} value={value}>
                {label}
              </option>
            ))}
          </select>
        </LabelledControl>
        <output class="note" for="list-search list-sort">
          {shown}
          {formatCount(total)} {name}
        </output>
      </search>
      <div ref={list}>{items.length > 0 ? children(items) : <p class="empty">Nothing matches.</p>}</div>
      {isTurned && (
        <nav class="pages" aria-label={`Pages of the ${name}`}>
          <PageButton
            text="Previous"
            go={later.length > 0 ? () => setLater(later.slice(0, -1)) : undefined}
          />
          <PageButton text="Next" go={next === undefined ? undefined : () => setLater([...later, next])} />
          <span class="note">
            {shown}
            {formatCount(total)}
          </span>
        </nav>
      )}
    </div>
  )
}

/** Stays focusable without a page to go to: otherwise the focus would be lost at the last page. */
function PageButton({ text, go }: { readonly text: string; readonly go: (() => void) | undefined }) {
  return (
    <button type="button" aria-disabled={go === undefined} onClick={() => go?.()}>
      {text}
      <span class="unseen"> page</span>
    </button>
  )
}

/** Changes when an order by counters is to be read again: not while the user is in the list, which would move. */
function useOrderTime(server: LiveServer, sort: string, list: HTMLElement | null): number {
  const time = useRef(0)
  const isHeld = list?.contains(document.activeElement) || !Object.hasOwn(COUNTER_ORDERS, sort)
  if (!isHeld) time.current = Math.floor(server.polls / ORDER_POLLS)
  return time.current
}

/** The part of the fragment after the view. */
function addressQuery(): URLSearchParams {
  const [, query = ''] = location.hash.split('?')
  return new URLSearchParams(query)
}

/** Replaces the entry of the history, so that going back leaves the view. */
function replaceAddressQuery(query: string): void {
  const [view = ''] = location.hash.split('?')
  const address = `${location.pathname}${view || '#/'}${query && `?${query}`}`
  history.replaceState(null, '', address)
}
