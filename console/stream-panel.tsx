import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { HeaderList, LogLink, readable, SaveButton, ScrolledText, StatusBadge } from './answer-panel.tsx'
import { formatBytes, formatCount, formatMs, toHex, toText } from './format.ts'
import {
  KEPT_BYTES,
  KEPT_EVENTS,
  type ReceivedEvent,
  type StreamedAnswer,
  type StreamedCall,
} from './streamed-call.ts'

/** Minimum time between two updates of the page, in milliseconds. */
const UPDATE_MS = 100

/** The answer of a call as it comes. The call ends with the panel. */
export function StreamPanel({ call }: { readonly call: StreamedCall }) {
  const [, update] = useState(0)
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined
    const stop = call.follow(() => {
      timer ??= setTimeout(() => {
        timer = undefined
        update((count) => count + 1)
      }, UPDATE_MS)
    })
    update((count) => count + 1) // it may have changed before this effect
    return () => {
      stop()
      clearTimeout(timer)
      call.cancel()
    }
  }, [call])
  const { answer } = call
  const { status, firstByteMs, ms, bytes, uploaded, problem, isOver, headers, trailers, events } = answer
  return (
    // A screen reader would read each piece.
    <div class="answer" aria-live="off">
      <p class="status">
        {status !== undefined && <StatusBadge status={status} />}
        <span>{formatMs(ms)}</span>
        {status === undefined && uploaded > 0 && <span>{formatBytes(uploaded)} sent</span>}
        {status !== undefined && <span>{formatBytes(bytes)}</span>}
        {firstByteMs !== undefined && <span>first byte after {formatMs(firstByteMs)}</span>}
        <LogLink headers={headers} />
      </p>
      <output class={problem === undefined ? 'note' : 'problem'}>
        {problem ??
          (isOver ? 'Complete.' : status === undefined ? 'Waiting for the response …' : 'Streaming …')}
      </output>
      {!isOver && (
        <button type="button" onClick={() => call.cancel()}>
          Cancel
        </button>
      )}
      {events ? <EventList events={events} count={answer.eventCount} /> : <StreamedBody answer={answer} />}
      {isOver && bytes > 0 && bytes <= KEPT_BYTES && <SaveButton bytes={answer.tail} />}
      <HeaderList title="Headers" headers={headers} />
      <HeaderList title="Trailers" headers={trailers} />
    </div>
  )
}

interface EventListProps {
  readonly events: readonly ReceivedEvent[]
  /** The number of pieces, including those that are not kept. */
  readonly count: number
}

function EventList({ events, count }: EventListProps) {
  return (
    <>
      <h3>
        {formatCount(count)} {count === 1 ? 'event' : 'events'}, the newest first
        {count > KEPT_EVENTS && `; the last ${KEPT_EVENTS} are shown`}
      </h3>
      {events.length > 0 && (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: keys scroll it
        <ol class="log" tabIndex={0} aria-label="Events, the newest first">
          {events.toReversed().map(({ number, ms, event, id, data }) => (
            <li key={number}>
              <span class="level">{formatMs(ms)}</span>
              <span>{event}</span>
              <span class="text">
                {data}
                {id !== '' && <span class="pair">id={id}</span>}
              </span>
            </li>
          ))}
        </ol>
      )}
    </>
  )
}

/** Follows the end of the text unless it was scrolled up. */
function StreamedBody({ answer }: { readonly answer: StreamedAnswer }) {
  const body = useRef<HTMLDivElement>(null)
  const isAtEnd = useRef(true)
  useLayoutEffect(() => {
    const node = body.current?.firstElementChild
    if (node && isAtEnd.current) node.scrollTop = node.scrollHeight
  })
  const followEnd = (event: Event) => {
    const { target } = event
    if (target instanceof Element)
      isAtEnd.current = target.scrollTop + target.clientHeight >= target.scrollHeight - NEAR_PX
  }
  if (answer.bytes === 0) return null
  const isCut = answer.bytes > KEPT_BYTES
  return (
    <>
      <h3>Body{isCut && `: the last ${formatBytes(KEPT_BYTES)} of ${formatBytes(answer.bytes)}`}</h3>
      <div ref={body} onScrollCapture={followEnd}>
        <ScrolledText label="Response body">{textOf(answer)}</ScrolledText>
      </div>
    </>
  )
}

/** Distance from the end of a text in which it is followed. */
const NEAR_PX = 24

/** Number of last bytes that are shown in hex. */
const SHOWN_BYTES = 4_096

function textOf({ tail, bytes, isOver, headers }: StreamedAnswer): string {
  const isCut = bytes > tail.length
  if (isOver && !isCut) return readable(tail, String(headers['content-type'] ?? ''))
  const begin = isCut ? tail.findIndex((byte) => (byte & 0xc0) !== 0x80) : 0 // a character may be cut
  return toText(tail.subarray(Math.max(begin, 0)), !isOver) ?? toHex(tail.subarray(-SHOWN_BYTES))
}
