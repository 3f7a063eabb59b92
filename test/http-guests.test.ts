import { describeHttpGuest } from './support/http-guest.ts'
import { pluginFile } from './support/pdk.ts'

for (const folder of ['http-rust', 'http-assemblyscript'])
  describeHttpGuest(folder, pluginFile(folder, 'http.wasm'))
