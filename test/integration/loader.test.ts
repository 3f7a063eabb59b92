import { expect, test, vi } from 'vitest'
import { openLoader, PluginTable } from '../../src/deploy/loader.ts'
import { checkLoadOptions, checkServerOptions, type RouteOptions } from '../../src/options/options.ts'
import { file, guestBytes } from '../support/guest.ts'

/** As many as are read in threads. */
const COUNT = 256

const module = guestBytes('(module (memory 2) (func (export "run")))')
const files = Array.from({ length: COUNT }, (_, n) => file(`${n}.wasm`, module))

async function loaderOf(routes: RouteOptions[]) {
  const checked = checkServerOptions({
    routes: routes.map((route, n) => ({ url: `/${n}`, ...route })),
  }).routes
  const plugins = new PluginTable()
  const onFile = vi.fn()
  const loader = openLoader(checkLoadOptions({}), {}, { plugins, onFile })
  await loader.expect(checked)
  return { loader, checked, onFile, plugins }
}

test('many files are read together, each once, and are what they are when read alone', async () => {
  const routes = files.map((plugin): RouteOptions => ({ plugin, load: 'lazy' }))
  const { loader, checked, onFile, plugins } = await loaderOf([...routes, ...routes])
  const many = await Promise.all(checked.map((route) => loader.load(route)))
  expect(onFile.mock.calls.map(([path]) => path)).toEqual(files)
  const one = await loaderOf(routes.slice(0, 1))
  const [alone] = await Promise.all(one.checked.map((route) => one.loader.load(route)))
  if (!alone) throw new Error('there is no route')
  for (const { plugin, version } of many) {
    expect({ ...plugin, name: '', file: '', compile: 0 }).toEqual({
      ...alone.plugin,
      name: '',
      file: '',
      compile: 0,
    })
    expect({ ...version, name: '', addedAt: '' }).toEqual({ ...alone.version, name: '', addedAt: '' })
  }
  const { digest } = alone.version
  expect([...plugins.modules]).toEqual([[digest, { path: expect.toBeOneOf(files), digest }]])
  expect((await many[0]?.plugin.compile?.({}))?.module).toBeInstanceOf(WebAssembly.Module)
})

test('a file that is read for routes with different limits keeps to the limit of each', async () => {
  const [plugin = ''] = files
  const { loader, checked } = await loaderOf([
    ...files.map((plugin): RouteOptions => ({ plugin, load: 'lazy' })),
    { plugin, load: 'lazy', memoryMax: 1 },
  ])
  const small = checked.at(-1)
  if (!small) throw new Error('there is no route')
  await expect(loader.load(small)).rejects.toMatchObject({ code: 'WASM_SERVE_PLUGIN_INVALID' })
  expect((await Promise.all(checked.slice(0, -1).map((route) => loader.load(route)))).length).toBe(COUNT)
})
