/** An event of `text/event-stream`. */
export interface ServerEvent {
  /** `message` if the server names none. */
  readonly event: string
  /** The last id that the server has sent; empty before. */
  readonly id: string
  readonly data: string
}

/** Maximum characters of a line, and of the data of an event. The rest is left out. */
const MAX_CHARACTERS = 65_536

/** Parses a stream of events piece by piece. (https://html.spec.whatwg.org/multipage/server-sent-events.html) */
export class EventStream {
  /** The begin of a line. */
  #rest = ''
  #event = ''
  #id = ''
  #data: string | undefined

  /** @returns the events that the text completes. */
  add(text: string): ServerEvent[] {
    const lines = (this.#rest + text).split(/\r\n|\n|\r(?!$)/) // a \n may follow the last \r
    this.#rest = (lines.pop() ?? '').slice(0, MAX_CHARACTERS)
    return lines.flatMap((line) => this.#addLine(line) ?? [])
  }

  #addLine(line: string): ServerEvent | undefined {
    if (line === '') return this.#end()
    const [, name = '', value = ''] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? []
    if (name === 'event') this.#event = value
    else if (name === 'id') this.#id = value
    else if (name === 'data')
      this.#data = (this.#data === undefined ? value : `${this.#data}\n${value}`).slice(0, MAX_CHARACTERS)
    return undefined
  }

  #end(): ServerEvent | undefined {
    const event = this.#event || 'message'
    const data = this.#data
    this.#event = ''
    this.#data = undefined
    return data === undefined ? undefined : { event, id: this.#id, data }
  }
}
