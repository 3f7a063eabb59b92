import { readdirSync } from 'node:fs'
import type { FuzzTarget } from './target.ts'

/** The targets: each file of `targets/` exports one as `target`. */
export async function findTargets(): Promise<FuzzTarget[]> {
  const names = readdirSync(new URL('targets', import.meta.url))
    .filter((file) => file.endsWith('.ts'))
    .map((file) => file.slice(0, -'.ts'.length))
    .sort()
  return Promise.all(names.map(findTarget))
}

async function findTarget(name: string): Promise<FuzzTarget> {
  const { target }: { target: FuzzTarget } = await import(`./targets/${name}.ts`)
  if (target.name !== name) throw new Error(`the target of targets/${name}.ts is called ${target.name}`)
  return target
}
