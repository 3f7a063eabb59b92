import { expect, test } from 'vitest'
import { droppedLifetimes, findOpeners } from '../../../scripts/lifetimes.ts'
import { sources } from '../../../scripts/rooms.ts'
import { DEPLOYMENTS, REDIS } from '../../support/openers/deployments.ts'
import { ENGINES } from '../../support/openers/engines.ts'
import { ROUTES, SERVERS } from '../../support/openers/routes.ts'
import { SERVICES } from '../../support/openers/services.ts'

const group = `export interface Sized extends Base {}
interface Base { close(): void }
export function openSized(): Promise<Sized> { return other() }
export class Group { join(): () => void { return () => undefined } add(): () => void { return this.join() } }
`

test.each([
  ['group.join(route)', ['user.ts:1 drops the result of join: nobody can end that lifetime']],
  ['await openSized()', ['user.ts:1 drops the result of openSized: nobody can end that lifetime']],
  ['void openSized()', ['user.ts:1 drops the result of openSized: nobody can end that lifetime']],
  ['const leave = group.join(route)', []],
  ['set.add(1)', []],
  ['this.openSized()', []],
])('%s', (code, found) => {
  expect(
    droppedLifetimes(
      new Map([
        ['group.ts', group],
        ['user.ts', code],
      ]),
    ),
  ).toEqual(found)
})

test('the sources drop no lifetime', () => {
  expect(findOpeners(sources()).length).toBeGreaterThan(40)
  expect(droppedLifetimes(sources())).toEqual([])
})

test('each opener has rounds in which it leaves nothing', () => {
  const openers = findOpeners(sources()).map(({ file, name }) => `${file} ${name}`)
  const tried = [SERVICES, ENGINES, ROUTES, SERVERS, DEPLOYMENTS, REDIS].flatMap(Object.keys)
  expect(tried.sort()).toEqual(openers.sort())
})
