/** Escapes characters that could end the quotes or the line, or move a cursor, as Apache does. */
export function quotable(text: string): string {
  return text.replace(UNSAFE, (character) =>
    character === '"' || character === '\\'
      ? `\\${character}`
      : `\\x${character.charCodeAt(0).toString(16).padStart(2, '0')}`,
  )
}

/** A time in Apache's formats: `21/Nov/2026:20:15:03 +0000`. */
export function renderTime(time: Date): string {
  const [date = '', clock = ''] = time.toISOString().split(/[T.]/)
  const [year, month, day] = date.split('-')
  return `${day}/${MONTHS[Number(month) - 1]}/${year}:${clock} +0000`
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: matches control characters
const UNSAFE = /["\\\u0000-\u001f\u007f-\u00ff]/g

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']
