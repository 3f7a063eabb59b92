import { describeStore } from '../../support/store-suite.ts'
import { lmdbStores, memoryStores } from '../../support/stores.ts'

for (const kind of [memoryStores, lmdbStores]) describeStore(kind)
