import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** The licences of packages, which require their notices in each copy. The same text of several packages stands once. */
export function notices(folders: readonly string[]): string {
  const owners = new Map<string, string[]>()
  for (const folder of folders) {
    const { text, copyright } = licenceOf(folder)
    owners.set(text, [...(owners.get(text) ?? []), `${nameOf(folder)}: ${copyright}`])
  }
  const parts = [...owners].map(([text, lines]) => `${lines.join('\n')}\n\n${text}`)
  return `/*!\n${parts.join('\n\n')}\n*/`
}

function nameOf(folder: string): string {
  return folder.slice(folder.lastIndexOf('node_modules/') + 'node_modules/'.length)
}

/** A package without a file of its licence names it in its `package.json`. */
function licenceOf(folder: string): { readonly text: string; readonly copyright: string } {
  const name = readdirSync(folder).find((each) => /^licen[cs]e/i.test(each))
  if (name === undefined) {
    const { license, author } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
    return { text: license, copyright: typeof author === 'string' ? author : author.name }
  }
  const lines = readFileSync(join(folder, name), 'utf8').trim().split('\n')
  const copyright = lines.filter((line) => COPYRIGHT.test(line))
  const text = lines.filter((line) => !COPYRIGHT.test(line) && !TITLE.test(line)).join('\n')
  const paragraphs = text.split(/\n\s*\n/).map((each) => each.replaceAll(/\s+/g, ' ').trim())
  return {
    text: paragraphs.filter((each) => each !== '').join('\n\n'),
    copyright: copyright.map((line) => line.trim()).join(', '),
  }
}

const COPYRIGHT = /^\s*copyright\b(?! notice)/i
const TITLE = /^[\s#*]*(?:the )?(?:mit|isc) license(?: \(mit\))?[\s*]*$/i
