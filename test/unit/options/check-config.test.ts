import { expect, test } from 'vitest'
import { checkNode, checkRoute } from '../../../src/options/check-config.ts'
import { COMMAND_LINE, fromWord, mapOf, mergeMaps } from '../../../src/options/config-node.ts'

const noServer = () => mapOf([], COMMAND_LINE)
const route = (url: string, more = noServer()) =>
  mergeMaps(fromWord('plugin', 'hello.wasm'), fromWord('url', url), more)

test('a route that passed is not checked again, alone or with the same server', () => {
  const server = noServer()
  const [one, two] = [route('/one'), route('/two')]
  const first = checkNode(server, [one, two])
  expect(checkRoute(one)).toBe(first.routes[0])
  expect(checkNode(server, [two]).routes).toEqual([first.routes[1]])
  expect(checkNode(server, [two]).routes[0]).toBe(first.routes[1])
})

test('with the options of another server it is checked again', () => {
  const own = route('/')
  const first = checkNode(noServer(), [own])
  expect(checkNode(noServer(), [own]).routes[0]).not.toBe(first.routes[0])
})

test('one that did not pass is checked each time', () => {
  const server = noServer()
  const wrong = route('/', fromWord('bodyLimit', 'much'))
  for (const attempt of [1, 2]) {
    expect(() => checkNode(server, [wrong]), `attempt ${attempt}`).toThrow(
      expect.objectContaining({ code: 'WASM_SERVE_OPTIONS_INVALID' }),
    )
  }
})
