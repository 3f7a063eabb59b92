import type { OwnFlag } from './own-flags.ts'

/** What a command's help page says; it is to fit a screen of 80 x 24. */
export interface HelpPage {
  readonly usage: string
  /** A line or two. */
  readonly about: string
  readonly examples: readonly string[]
  readonly flags: Readonly<Record<string, OwnFlag>>
  /** A last line. */
  readonly more?: string
}

/** Renders a help page. */
export function renderPage({ usage, about, examples, flags, more }: HelpPage): string {
  const rows = Object.entries(flags).map(
    ([name, flag]) => [renderFlag(name, flag), flag.description] as const,
  )
  const parts = [
    usage,
    about,
    ['Examples:', ...examples.map((example) => `  ${example}`)].join('\n'),
    ...(rows.length > 0 ? [['Flags:', ...renderRows(rows)].join('\n')] : []),
    ...(more === undefined ? [] : [more]),
  ]
  return `${parts.join('\n\n')}\n`
}

/** Renders names and what they mean, in two columns. */
export function renderRows(rows: readonly (readonly [name: string, description: string])[]): string[] {
  const width = Math.max(...rows.map(([name]) => name.length))
  return rows.map(([name, description]) => `  ${name.padEnd(width)}  ${description}`)
}

function renderFlag(name: string, { short, placeholder }: OwnFlag): string {
  return `${short === undefined ? '' : `-${short}, `}--${name}${placeholder === undefined ? '' : ` <${placeholder}>`}`
}
