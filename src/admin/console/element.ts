/** What an element has: attributes by name, and listeners by `on` and the name of the event. */
export interface Attributes {
  readonly [name: string]: string | number | boolean | undefined | ((event: Event) => void)
}

type Child = Node | string | number | undefined | false

/** Makes an element. Text is text: nothing is ever read as markup. An attribute that is false or undefined is left out. */
export function element<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Attributes = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[Tag] {
  const made = document.createElement(tag)
  setAll(made, attributes)
  made.append(...shown(children))
  return made
}

const SVG = 'http://www.w3.org/2000/svg'

/** The same for what is drawn. */
export function drawn<Tag extends keyof SVGElementTagNameMap>(
  tag: Tag,
  attributes: Attributes = {},
  ...children: readonly Child[]
): SVGElementTagNameMap[Tag] {
  const made = document.createElementNS(SVG, tag)
  setAll(made, attributes)
  made.append(...shown(children))
  return made
}

/** Sets a text, unless it is there: who has selected it keeps it selected. */
export function setText(node: Node, text: string): void {
  if (node.textContent !== text) node.textContent = text
}

function setAll(made: Element, attributes: Attributes): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') made.addEventListener(name.slice('on'.length), value)
    else if (value === true) made.setAttribute(name, '')
    else if (value !== undefined && value !== false) made.setAttribute(name, String(value))
  }
}

function shown(children: readonly Child[]): (Node | string)[] {
  return children.flatMap((child) =>
    child === undefined || child === false ? [] : [typeof child === 'number' ? String(child) : child],
  )
}
