import { describeGuestHttp } from '../support/guest-http-suite.ts'

describeGuestHttp('subprocess')
